//! Puts by one request, deletes, and how a put whose answer was lost finds out what became of it (K2).
//!
//! A conditional put carries a mark of its own in the object's metadata. If a later attempt's condition fails, the object's
//! mark is read: ours means that an earlier attempt was done. Any other means nothing: ours may have been there before it.

use bytes::Bytes;
use futures_util::StreamExt;
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, GetOptions, PutMode, PutOptions, PutPayload, UpdateVersion,
};
use siltstone_cloud::{Call, Condition, Failure, Result, Tag};

use super::reads::tag;
use super::{Client, Deletes, Errand, Got, Load};
use crate::meter::Verb;
use crate::options::Marks;
use crate::trouble::{Class, Trouble};

/// The metadata in which a put's mark stands.
const MARK: &str = "siltstone-put";
/// S3 removes so many objects by one request.
const BULK: usize = 1000;
/// Where each takes a request of its own, so many make up an attempt.
const BUNCH: usize = 100;

/// What a put may know its object by.
#[derive(Clone, Debug)]
pub(super) struct Mark(Option<String>);

impl Client {
    /// [`Bucket::put`](siltstone_cloud::Bucket::put).
    pub(crate) async fn put(
        &self,
        name: &str,
        body: Bytes,
        when: Condition,
        call: Call,
    ) -> Result<Tag> {
        // Parts cannot be put on a condition.
        if when == Condition::Always && body.len() > self.options.single_put_bytes {
            return self.put_in_parts(name, body, self.options.part_bytes, call).await;
        }
        let path = self.path(name)?;
        let errand = Errand::new(name, Verb::Put, call);
        let mark = if when == Condition::Always { Mark(None) } else { self.mark() };
        let mut doubt = false;
        let load = Load::Sends(body.len() as u64);
        let put = self.persist(&errand, &mut doubt, || {
            self.attempt(&errand, load, self.send(&path, body.clone(), &when, &mark))
        });
        match put.await {
            Ok(tag) => Ok(tag),
            Err(trouble) if is_refusal(trouble.class, &when) => {
                if doubt {
                    return self.settle(&path, &mark, &errand).await;
                }
                let message = format!("{when:?} does not hold: {}", trouble.message);
                Err(self.failed(&errand, Failure::Refused, &message))
            }
            Err(trouble) => Err(self.error(&errand, &trouble, doubt)),
        }
    }

    /// Creates an object, and finds out by its mark that it did: what [`put`](Client::put) does after a lost answer.
    pub(crate) async fn put_and_forget(&self, name: &str, body: Bytes, call: Call) -> Result<Tag> {
        let (path, mark) = (self.path(name)?, self.mark());
        let errand = Errand::new(name, Verb::Put, call);
        let load = Load::Sends(body.len() as u64);
        let mut doubt = false;
        let put = self.persist(&errand, &mut doubt, || {
            self.attempt(&errand, load, self.send(&path, body.clone(), &Condition::Absent, &mark))
        });
        put.await.map_err(|trouble| self.error(&errand, &trouble, doubt))?;
        self.settle(&path, &mark, &errand).await
    }

    async fn send(&self, path: &Path, body: Bytes, when: &Condition, mark: &Mark) -> Got<Tag> {
        let mode = match when {
            Condition::Always => PutMode::Overwrite,
            Condition::Absent => PutMode::Create,
            Condition::Tagged(tag) => {
                PutMode::Update(UpdateVersion { e_tag: Some(tag.0.clone()), version: None })
            }
        };
        let options = PutOptions { mode, attributes: mark.attributes(), ..PutOptions::default() };
        let put = self.backend.objects.put_opts(path, PutPayload::from(body), options).await;
        let put = put.map_err(|error| Trouble::of(&error))?;
        Ok((tag(put.e_tag.as_deref())?, 0))
    }

    pub(super) fn mark(&self) -> Mark {
        match self.options.marks {
            Marks::None => Mark(None),
            Marks::Metadata => {
                let mut dice = self.dice();
                Mark(Some(format!("{:016x}{:016x}", dice.next(), dice.next())))
            }
        }
    }

    /// Whether the object that is there is the one that `mark` was put with. It is, or nobody knows.
    pub(super) async fn settle(&self, path: &Path, mark: &Mark, errand: &Errand) -> Result<Tag> {
        let unsure = |message: &str| Err(self.failed(errand, Failure::Unsure, message));
        let Some(mine) = &mark.0 else {
            return unsure("an answer was lost, and now the condition does not hold");
        };
        let reading = errand.by(Verb::Head);
        let look = || async {
            let options = GetOptions { head: true, ..GetOptions::default() };
            let got = self.backend.objects.get_opts(path, options).await;
            let got = got.map_err(|error| Trouble::of(&error))?;
            let found = got.attributes.get(&Attribute::Metadata(MARK.into()));
            let is_mine = found.is_some_and(|found| found.as_ref() == mine);
            Ok(((is_mine, tag(got.meta.e_tag.as_deref())?), 0))
        };
        let found = self.ask(&reading, || self.attempt(&reading, Load::Brings(0), look()));
        match found.await {
            Ok((true, tag)) => Ok(tag),
            Ok((false, _)) => unsure("an answer was lost, and now another object is there"),
            Err(trouble) => unsure(&format!("an answer was lost, then {}", trouble.message)),
        }
    }

    /// [`Bucket::delete`](siltstone_cloud::Bucket::delete).
    pub(crate) async fn delete(&self, names: &[String], call: Call) -> Result<()> {
        let paths = names.iter().map(|name| self.path(name)).collect::<Result<Vec<_>>>()?;
        let at_once = match self.backend.deletes {
            Deletes::Bulk => BULK,
            Deletes::OneByOne => BUNCH,
        };
        let whole = Errand::new("", Verb::Delete, call);
        for (names, paths) in names.chunks(at_once).zip(paths.chunks(at_once)) {
            let errand = Errand { name: names[0].clone(), ..whole.clone() };
            let mut doubt = false;
            let removed = self.persist(&errand, &mut doubt, || {
                self.attempt(&errand, Load::Brings(0), self.remove(paths))
            });
            removed.await.map_err(|trouble| self.error(&errand, &trouble, doubt))?;
        }
        Ok(())
    }

    /// One attempt to remove all of `paths`. Those that are gone already may be removed again.
    async fn remove(&self, paths: &[Path]) -> Got<()> {
        let paths: Vec<_> = paths.iter().cloned().map(Ok).collect();
        let mut removed =
            self.backend.objects.delete_stream(futures_util::stream::iter(paths).boxed());
        let one_by_one = self.backend.deletes == Deletes::OneByOne;
        let mut worst = None;
        while let Some(outcome) = removed.next().await {
            let trouble = outcome.err().map(|error| Trouble::of(&error));
            let is_gone = |class| class == Class::Missing && one_by_one;
            worst = worst.or(trouble.filter(|trouble| !is_gone(trouble.class)));
        }
        worst.map_or(Ok(((), 0)), Err)
    }
}

impl Mark {
    pub(super) fn attributes(&self) -> Attributes {
        let mark = self.0.clone();
        mark.map(|mark| (Attribute::Metadata(MARK.into()), mark)).into_iter().collect()
    }
}

/// S3 says of an object that is to be replaced and is not there that it is missing.
fn is_refusal(class: Class, when: &Condition) -> bool {
    match when {
        Condition::Always => false,
        Condition::Absent => class == Class::Refused,
        Condition::Tagged(_) => matches!(class, Class::Refused | Class::Missing),
    }
}
