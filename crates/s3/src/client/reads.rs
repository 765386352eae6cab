//! Gets and heads. A get that is late may be asked for twice; the first answer counts.

use std::pin::pin;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, GetResult, ObjectMeta, ObjectStoreExt as _};
use siltstone_cloud::{Call, Object, Part, Result, Stat, Tag};
use tokio::time::{Instant, sleep};

use super::{Client, Errand, Got, Load};
use crate::meter::Verb;
use crate::trouble::{Class, Trouble};

/// What a server says of an object's size is believed up to here, before the bytes are there.
const RESERVE_MAX: u64 = 8 << 20;

/// A tag as servers write it, or as some do in lists, without quotes.
pub(super) fn tag(e_tag: Option<&str>) -> std::result::Result<Tag, Trouble> {
    match e_tag {
        None | Some("") => Err(Trouble::new(Class::Odd, "the answer has no ETag")),
        Some(text) if text.ends_with('"') => Ok(Tag(text.to_owned())),
        Some(text) => Ok(Tag(format!("\"{text}\""))),
    }
}

impl Client {
    /// [`Bucket::get`](siltstone_cloud::Bucket::get).
    pub(crate) async fn get(&self, name: &str, part: Part, call: Call) -> Result<Object> {
        let path = self.path(name)?;
        let errand = Errand::new(name, Verb::Get, call);
        // HTTP has no word for no bytes.
        if matches!(part, Part::Range { len: 0, .. } | Part::Tail(0)) {
            return self.nothing_of(&path, part, &errand).await;
        }
        let options = GetOptions { range: range(part), ..GetOptions::default() };
        let load = match part {
            Part::Whole => Load::Unknown,
            Part::Range { len, .. } | Part::Tail(len) => Load::Brings(len),
        };
        let got = self.ask(&errand, || {
            self.attempt(&errand, load, self.fetch(&errand, &path, options.clone()))
        });
        match got.await {
            Ok(object) => Ok(object),
            // It may be that the range begins where the object ends, which servers answer in many ways.
            Err(trouble) if part != Part::Whole && explains_nothing_there(trouble.class) => {
                let nothing = self.nothing_of(&path, part, &errand).await?;
                let begins_behind = match part {
                    Part::Range { offset, .. } => offset >= nothing.bytes,
                    Part::Whole | Part::Tail(_) => nothing.bytes == 0,
                };
                if begins_behind { Ok(nothing) } else { Err(self.error(&errand, &trouble, false)) }
            }
            Err(trouble) => Err(self.error(&errand, &trouble, false)),
        }
    }

    /// [`Bucket::head`](siltstone_cloud::Bucket::head).
    pub(crate) async fn head(&self, name: &str, call: Call) -> Result<Stat> {
        let path = self.path(name)?;
        let errand = Errand::new(name, Verb::Head, call);
        let meta = self.meta(&path, &errand).await.map_err(|t| self.error(&errand, &t, false))?;
        stat(name, &meta).map_err(|trouble| self.error(&errand, &trouble, false))
    }

    async fn meta(&self, path: &Path, errand: &Errand) -> std::result::Result<ObjectMeta, Trouble> {
        let work = || async {
            let meta = self.backend.objects.head(path).await;
            Ok((meta.map_err(|error| Trouble::of(&error))?, 0))
        };
        self.ask(errand, || self.attempt(errand, Load::Brings(0), work())).await
    }

    /// No bytes of an object that is there.
    async fn nothing_of(&self, path: &Path, part: Part, errand: &Errand) -> Result<Object> {
        let errand = errand.by(Verb::Head);
        let found = self
            .meta(path, &errand)
            .await
            .and_then(|meta| Ok((meta.size, tag(meta.e_tag.as_deref())?)));
        let (bytes, tag) = found.map_err(|trouble| self.error(&errand, &trouble, false))?;
        let offset = match part {
            Part::Range { offset, .. } => offset.min(bytes),
            Part::Whole | Part::Tail(_) => bytes,
        };
        Ok(Object { body: Bytes::new(), offset, bytes, tag })
    }

    /// One attempt at a get, body included.
    async fn fetch(&self, errand: &Errand, path: &Path, options: GetOptions) -> Got<Object> {
        let is_whole = options.range.is_none();
        let got = self.open(errand, path, options).await?;
        let (range, bytes) = (got.range.clone(), got.meta.size);
        let tag = tag(got.meta.e_tag.as_deref())?;
        let len = range.end - range.start;
        if is_whole && len > self.options.whole_bytes_max {
            let message =
                format!("it has {len} bytes, too many to be read whole: read ranges of it");
            return Err(Trouble::new(Class::Wrong, message));
        }
        let body = collect(got, len).await?;
        Ok((Object { body, offset: range.start, bytes, tag }, len))
    }

    /// Sends a get, and a second one if the answer is late and the budget has it.
    async fn open(
        &self,
        errand: &Errand,
        path: &Path,
        options: GetOptions,
    ) -> std::result::Result<GetResult, Trouble> {
        let begun = Instant::now();
        let ask = || async {
            let answer = self.backend.objects.get_opts(path, options.clone()).await;
            answer.map_err(|error| Trouble::of(&error))
        };
        let mut first = pin!(ask());
        let mut late = false;
        if let Some(after) = self.hedger.after() {
            tokio::select! {
                biased;
                answer = &mut first => return self.opened(begun, answer),
                () = sleep(after) => late = true,
            }
        }
        // Only where a request's place is free at once: hedges must not keep others waiting.
        let place = if late { self.gate.try_acquire().ok() } else { None };
        let Some(_place) = place.filter(|_| self.hedger.spend()) else {
            return self.opened(begun, first.await);
        };
        self.meter.asked(errand.tag, 0);
        self.meter.hedged(errand.tag);
        let mut second = pin!(ask());
        let (answer, other_pending) = tokio::select! {
            biased;
            answer = &mut first => (answer, Pending::Second),
            answer = &mut second => (answer, Pending::First),
        };
        if answer.is_ok() {
            if other_pending == Pending::First {
                self.meter.hedge_won(errand.tag);
            }
            return self.opened(begun, answer);
        }
        // One has failed: the other may still come through.
        match other_pending {
            Pending::First => self.opened(begun, first.await),
            Pending::Second => self.opened(begun, second.await),
        }
    }

    fn opened(
        &self,
        begun: Instant,
        answer: std::result::Result<GetResult, Trouble>,
    ) -> std::result::Result<GetResult, Trouble> {
        if answer.is_ok() {
            self.hedger.answered(begun.elapsed());
        }
        answer
    }
}

/// Which of two requests has not been answered yet.
#[derive(PartialEq)]
enum Pending {
    First,
    Second,
}

fn range(part: Part) -> Option<GetRange> {
    match part {
        Part::Whole => None,
        Part::Tail(len) => Some(GetRange::Suffix(len)),
        Part::Range { offset, len } => match offset.checked_add(len) {
            // Not all servers can read larger numbers.
            Some(end) if end <= i64::MAX as u64 => Some(GetRange::Bounded(offset..end)),
            _ => Some(GetRange::Offset(offset)),
        },
    }
}

/// Errors under which a range that begins behind the end may hide.
fn explains_nothing_there(class: Class) -> bool {
    matches!(class, Class::Beyond | Class::Wrong | Class::Odd)
}

/// A body of exactly `len` bytes.
async fn collect(got: GetResult, len: u64) -> std::result::Result<Bytes, Trouble> {
    let mut chunks = got.into_stream();
    let mut body: Option<BytesMut> = None;
    let mut only = Bytes::new();
    let mut arrived = 0u64;
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| as_broken(Trouble::of(&error)))?;
        arrived += chunk.len() as u64;
        if arrived > len {
            let message = format!("{arrived} bytes or more arrived instead of {len}");
            return Err(Trouble::new(Class::Damaged, message));
        }
        // A body of one chunk is handed on as it is.
        if let Some(body) = &mut body {
            body.extend_from_slice(&chunk);
        } else if only.is_empty() {
            only = chunk;
        } else {
            let mut joined = BytesMut::with_capacity(len.min(RESERVE_MAX) as usize);
            joined.extend_from_slice(&only);
            joined.extend_from_slice(&chunk);
            body = Some(joined);
        }
    }
    if arrived < len {
        let message = format!("the answer ended after {arrived} of {len} bytes");
        return Err(Trouble::new(Class::Broken, message));
    }
    Ok(body.map_or(only, BytesMut::freeze))
}

/// Half a body is no answer that makes no sense.
fn as_broken(mut trouble: Trouble) -> Trouble {
    if trouble.class == Class::Odd {
        trouble.class = Class::Broken;
    }
    trouble
}

/// What is known of an object, under the name that we know it by.
pub(super) fn stat(name: &str, meta: &ObjectMeta) -> std::result::Result<Stat, Trouble> {
    Ok(Stat {
        name: name.to_owned(),
        bytes: meta.size,
        tag: tag(meta.e_tag.as_deref())?,
        // A server's clock set before 1970 reads as 1970.
        written_ms: u64::try_from(meta.last_modified.timestamp_millis()).unwrap_or(0),
    })
}
