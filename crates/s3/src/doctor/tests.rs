//! Servers that are broken in one way each: the doctor must name it, and the verdict follow.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::*;
use siltstone_cloud::Bucket as _;

use super::*;
use crate::options::{Hedge, Options};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Defect {
    None,
    CreateOverwrites,
    CreateRaces,
    MatchIgnored,
    MatchRaces,
    MatchInverted,
    MatchCreates,
    TagConstant,
    MetadataLost,
    ReadsStale,
    RangeIgnored,
    TailShort,
    ListForgets,
    DeleteForgets,
    PartsReversed,
}

/// A store in memory with one defect.
#[derive(Debug)]
struct Server {
    inner: Arc<InMemory>,
    defect: Defect,
    /// For [`Defect::ReadsStale`]: what was there before the last put.
    before: Mutex<Option<Bytes>>,
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl Server {
    async fn put_mode(&self, location: &Path, mode: PutMode) -> Result<PutMode> {
        let there = self.inner.head(location).await.ok();
        // Long enough for another request to come between.
        let pause = || tokio::time::sleep(Duration::from_millis(2));
        let exists =
            |path: &Path| Error::AlreadyExists { path: path.to_string(), source: "".into() };
        let changed =
            |path: &Path| Error::Precondition { path: path.to_string(), source: "".into() };
        Ok(match (self.defect, mode) {
            (Defect::CreateOverwrites, PutMode::Create) => PutMode::Overwrite,
            (Defect::CreateRaces, PutMode::Create) => {
                pause().await;
                there.map_or(Ok(PutMode::Overwrite), |_| Err(exists(location)))?
            }
            (Defect::MatchIgnored, PutMode::Update(_)) if there.is_some() => PutMode::Overwrite,
            (Defect::MatchCreates, PutMode::Update(_)) if there.is_none() => PutMode::Overwrite,
            (Defect::MatchRaces, PutMode::Update(version)) => {
                pause().await;
                let same = there.is_some_and(|there| there.e_tag == version.e_tag);
                if same { PutMode::Overwrite } else { return Err(changed(location)) }
            }
            (Defect::MatchInverted, PutMode::Update(version)) => {
                let same = there.is_none_or(|there| there.e_tag == version.e_tag);
                if same { return Err(changed(location)) } else { PutMode::Overwrite }
            }
            (Defect::TagConstant, PutMode::Update(_)) if there.is_some() => PutMode::Overwrite,
            (_, mode) => mode,
        })
    }

    fn meta(&self, meta: ObjectMeta) -> ObjectMeta {
        if self.defect == Defect::TagConstant {
            return ObjectMeta { e_tag: Some("\"same\"".to_owned()), ..meta };
        }
        meta
    }
}

#[async_trait]
impl ObjectStore for Server {
    async fn put_opts(
        &self,
        to: &Path,
        body: PutPayload,
        mut opts: PutOptions,
    ) -> Result<PutResult> {
        opts.mode = self.put_mode(to, opts.mode).await?;
        if self.defect == Defect::MetadataLost {
            opts.attributes = Attributes::new();
        }
        if let Ok(got) = self.inner.get(to).await {
            *self.before.lock().unwrap() = Some(got.bytes().await?);
        }
        let mut put = self.inner.put_opts(to, body, opts).await?;
        if self.defect == Defect::TagConstant {
            put.e_tag = Some("\"same\"".to_owned());
        }
        Ok(put)
    }

    async fn put_multipart_opts(
        &self,
        to: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let inner = self.inner.put_multipart_opts(to, opts).await?;
        Ok(Box::new(Upload { inner, defect: self.defect, parts: Vec::new() }))
    }

    async fn get_opts(&self, from: &Path, mut options: GetOptions) -> Result<GetResult> {
        match (self.defect, &options.range) {
            (Defect::RangeIgnored, Some(GetRange::Bounded(_))) => options.range = None,
            (Defect::TailShort, Some(GetRange::Suffix(len))) => {
                options.range = Some(GetRange::Suffix((*len).min(1_000)));
            }
            _ => {}
        }
        let mut got = self.inner.get_opts(from, options).await?;
        got.meta = self.meta(got.meta);
        let before = self.before.lock().unwrap().take();
        if let (Defect::ReadsStale, Some(before)) = (self.defect, before) {
            got.range = 0..before.len() as u64;
            got.payload =
                GetResultPayload::Stream(futures_util::stream::once(async { Ok(before) }).boxed());
        }
        Ok(got)
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        match self.defect {
            Defect::DeleteForgets => locations,
            _ => self.inner.delete_stream(locations),
        }
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let all = self.inner.list(prefix);
        match self.defect {
            Defect::ListForgets => {
                let kept = |(at, meta)| async move { (at != 17).then_some(meta) };
                all.enumerate().filter_map(kept).boxed()
            }
            Defect::TagConstant => {
                let same = |meta: Result<ObjectMeta>| {
                    meta.map(|meta| ObjectMeta { e_tag: Some("\"same\"".to_owned()), ..meta })
                };
                all.map(same).boxed()
            }
            _ => all,
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

/// Keeps parts until the end, and may put them together from behind.
#[derive(Debug)]
struct Upload {
    inner: Box<dyn MultipartUpload>,
    defect: Defect,
    parts: Vec<PutPayload>,
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        self.parts.push(data);
        Box::pin(async { Ok(()) })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        if self.defect == Defect::PartsReversed {
            self.parts.reverse();
        }
        for part in self.parts.drain(..) {
            self.inner.put_part(part).await?;
        }
        let mut put = self.inner.complete().await?;
        if self.defect == Defect::TagConstant {
            put.e_tag = Some("\"same\"".to_owned());
        }
        Ok(put)
    }

    async fn abort(&mut self) -> Result<()> {
        self.inner.abort().await
    }
}

fn examine(defect: Defect) -> (Report, Arc<InMemory>) {
    let inner = Arc::new(InMemory::new());
    let server = Server { inner: Arc::clone(&inner), defect, before: Mutex::new(None) };
    let hedge = Hedge { budget_percent: 0, ..Hedge::default() };
    let options = Options { seed: Some(1), hedge, ..Options::default() };
    let bucket = S3Bucket::over(Arc::new(server), "p", options).unwrap();
    (probe(&bucket), inner)
}

#[test]
fn a_sound_server_may_be_used_and_is_left_clean() {
    let (report, inner) = examine(Defect::None);
    assert!(report.may_commit(), "{report}");
    assert!(report.checks.iter().all(|check| check.outcome == Outcome::Held), "{report}");
    assert_eq!(report.verdict(), Verdict::Everything);
    assert!(report.requests > 100 && report.dollars < 0.01, "{report}");
    let bucket = S3Bucket::over(inner, "", Options::default()).unwrap();
    assert_eq!(bucket.list("", "", Call::new(Purpose::Tool)).unwrap().stats, []);
}

#[test]
fn each_defect_is_named_and_decides_what_may_be_done() {
    use Verdict::*;
    for (defect, name, verdict) in [
        (Defect::CreateOverwrites, "creating refuses what is there (If-None-Match)", NoCommits),
        (Defect::CreateRaces, "of racing creators one wins", NoCommits),
        (Defect::MatchIgnored, "replacing goes by the tag (If-Match)", NoCommits),
        (Defect::MatchInverted, "replacing goes by the tag (If-Match)", NoCommits),
        (Defect::MatchCreates, "replacing refuses what is not there", NoCommits),
        (Defect::MatchRaces, "of racing updates none is lost", NoCommits),
        (Defect::TagConstant, "tags tell contents apart", NoCommits),
        (Defect::MetadataLost, "a put whose answer was lost knows its own object", Everything),
        (Defect::ReadsStale, "a put is read back, at once and each time", Nothing),
        (Defect::RangeIgnored, "ranges and tails are exact", Nothing),
        (Defect::TailShort, "ranges and tails are exact", Nothing),
        (Defect::ListForgets, "lists are whole, in order, and begin behind a name", Nothing),
        (Defect::DeleteForgets, "what was deleted is gone, and may be deleted again", Nothing),
        (Defect::PartsReversed, "parts make up the object, in order", Nothing),
    ] {
        let (report, _) = examine(defect);
        let check = report.check(name).unwrap();
        assert!(matches!(check.outcome, Outcome::Broken(_)), "{defect:?}: {report}");
        assert_eq!(report.verdict(), verdict, "{defect:?}: {report}");
    }
}

#[test]
fn a_server_that_cannot_be_reached_is_not_asked_for_long() {
    let url = "s3://bucket/p?endpoint=http://127.0.0.1:1";
    let keys = |name: &str| name.starts_with("AWS_").then(|| "canary".to_owned());
    let location = crate::Location::parse_with(url, |name| {
        keys(name).filter(|_| name.ends_with("KEY") || name.ends_with("ID"))
    })
    .unwrap();
    let mut options = Options::default();
    options.retry.attempts_max = 2;
    let report = probe(&S3Bucket::at(&location, options).unwrap());
    assert_eq!((report.verdict(), report.checks.len()), (Verdict::Nothing, 2), "{report}");
    assert!(!report.to_string().contains("canary"), "{report}");
}
