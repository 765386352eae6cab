//! Large objects, put in parts. A part that fails is put again; an upload that fails is given up, so that its parts cost
//! nothing. What even giving up cannot reach (a process that dies) is for a lifecycle rule of the bucket. Parts may be sent while
//! those behind them are made.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, TryStreamExt};
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{MultipartId, PutMultipartOptions, PutPayload};
use siltstone_cloud::{Call, Result, Tag};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::timeout;

use super::reads::tag;
use super::{Client, Errand, Load};
use crate::meter::Verb;
use crate::trouble::{Class, Trouble};

/// S3 takes no more parts of one object.
const PARTS_MAX: usize = 10_000;
/// Giving up an upload takes no longer, or is left undone.
const ABORT: Duration = Duration::from_secs(10);

/// What comes of an object that is sent while it is made.
#[derive(Debug)]
pub(crate) enum Piece {
    Part(Bytes),
    /// That was all of it. Without, it is given up.
    End,
}

impl Client {
    /// Puts an object in the parts that it comes in.
    pub(crate) async fn put_as_it_comes(
        &self,
        name: &str,
        pieces: UnboundedReceiver<Piece>,
        call: Call,
    ) -> Result<Tag> {
        let path = self.path(name)?;
        let errand = Errand::new(name, Verb::Post, call);
        let parts = parts_of(pieces);
        match &self.backend.parts {
            Some(store) => self.upload(&errand, store, &path, parts).await,
            None => {
                let whole = self.upload_once(&errand, &path, parts).await;
                whole.map_err(|trouble| {
                    let doubt = !trouble.class.is_harmless();
                    self.error(&errand, &trouble, doubt)
                })
            }
        }
    }

    /// Puts an object in parts of `part_bytes`, several at a time.
    pub(crate) async fn put_in_parts(
        &self,
        name: &str,
        body: Bytes,
        part_bytes: usize,
        call: Call,
    ) -> Result<Tag> {
        let path = self.path(name)?;
        let errand = Errand::new(name, Verb::Post, call);
        let part_bytes = part_bytes.max(body.len().div_ceil(PARTS_MAX)).max(1);
        let parts: Vec<Bytes> = (0..body.len())
            .step_by(part_bytes)
            .map(|at| body.slice(at..(at + part_bytes).min(body.len())))
            .collect();
        match &self.backend.parts {
            Some(store) => self.upload(&errand, store, &path, at_hand(&parts)).await,
            None => {
                let mut doubt = false;
                let upload = || self.upload_once(&errand, &path, at_hand(&parts));
                let whole = self.persist(&errand, &mut doubt, upload);
                whole.await.map_err(|trouble| self.error(&errand, &trouble, doubt))
            }
        }
    }

    async fn upload(
        &self,
        errand: &Errand,
        store: &Arc<dyn MultipartStore>,
        path: &Path,
        parts: impl Stream<Item = Next>,
    ) -> Result<Tag> {
        let mark = self.mark();
        let begin = || async {
            let options =
                PutMultipartOptions { attributes: mark.attributes(), ..Default::default() };
            let id = store.create_multipart_opts(path, options).await;
            Ok((id.map_err(|error| Trouble::of(&error))?, 0))
        };
        // An upload that began without our knowing is empty: no object, and no cost.
        let begun = self.ask(errand, || self.attempt(errand, Load::Sends(0), begin()));
        let id = begun.await.map_err(|trouble| self.error(errand, &trouble, false))?;
        let parts = match self.send_parts(errand, store, path, &id, parts).await {
            Ok(parts) => parts,
            Err(trouble) => {
                self.abandon(errand, store, path, &id);
                // Without its end, an upload is no object, whatever became of a part.
                return Err(self.error(errand, &trouble, false));
            }
        };
        let mut doubt = false;
        let finish = || async {
            let put = store.complete_multipart(path, &id, parts.clone()).await;
            let put = put.map_err(|error| Trouble::of(&error))?;
            Ok((tag(put.e_tag.as_deref())?, 0))
        };
        let done =
            self.persist(errand, &mut doubt, || self.attempt(errand, Load::Sends(0), finish()));
        match done.await {
            Ok(tag) => Ok(tag),
            // The upload is known no more: an attempt whose answer was lost has ended it.
            Err(trouble) if trouble.class == Class::Missing && doubt => {
                self.settle(path, &mark, errand).await
            }
            Err(trouble) => {
                if !doubt {
                    self.abandon(errand, store, path, &id);
                }
                Err(self.error(errand, &trouble, doubt))
            }
        }
    }

    async fn send_parts(
        &self,
        errand: &Errand,
        store: &Arc<dyn MultipartStore>,
        path: &Path,
        id: &MultipartId,
        parts: impl Stream<Item = Next>,
    ) -> std::result::Result<Vec<PartId>, Trouble> {
        let errand = errand.by(Verb::Put);
        let send = |(at, part): (usize, Next)| {
            let errand = &errand;
            async move {
                let part = part?;
                let put = || async {
                    let put = store.put_part(path, id, at, PutPayload::from(part.clone())).await;
                    Ok((put.map_err(|error| Trouble::of(&error))?, 0))
                };
                let load = Load::Sends(part.len() as u64);
                self.ask(errand, || self.attempt(errand, load, put())).await
            }
        };
        let sends = parts.enumerate().map(send);
        sends.buffered(self.options.parts_in_flight.max(1)).try_collect().await
    }

    /// Gives an upload up, beside whatever goes on: its caller has waited long enough.
    fn abandon(
        &self,
        errand: &Errand,
        store: &Arc<dyn MultipartStore>,
        path: &Path,
        id: &MultipartId,
    ) {
        self.meter.asked(errand.by(Verb::Delete).tag, 0);
        let (store, path, id) = (Arc::clone(store), path.clone(), id.clone());
        tokio::spawn(async move { timeout(ABORT, store.abort_multipart(&path, &id)).await });
    }

    /// For stores that cannot take a part again: one attempt at a whole upload.
    async fn upload_once(
        &self,
        errand: &Errand,
        path: &Path,
        parts: impl Stream<Item = Next>,
    ) -> std::result::Result<Tag, Trouble> {
        let begin = async {
            let upload = self.backend.objects.put_multipart_opts(path, Default::default()).await;
            Ok((upload.map_err(|error| Trouble::of(&error))?, 0))
        };
        let mut upload = self.attempt(errand, Load::Sends(0), begin).await?;
        let sending = errand.by(Verb::Put);
        let (sending, in_flight) = (&sending, self.options.parts_in_flight.max(1));
        // Begun in the order of the parts, which is that of the calls.
        let sends = parts.map(|part| {
            let begun = part.map(|part| (part.len(), upload.put_part(PutPayload::from(part))));
            async move {
                let (bytes, send) = begun?;
                let send = async { Ok((send.await.map_err(|error| Trouble::of(&error))?, 0)) };
                self.attempt(sending, Load::Sends(bytes as u64), send).await
            }
        });
        let sent: std::result::Result<(), Trouble> =
            sends.buffer_unordered(in_flight).try_collect().await;
        let done = match sent {
            Ok(()) => {
                let finish = async {
                    let put = upload.complete().await.map_err(|error| Trouble::of(&error))?;
                    Ok((tag(put.e_tag.as_deref())?, 0))
                };
                self.attempt(errand, Load::Sends(0), finish).await
            }
            Err(trouble) => Err(trouble),
        };
        if done.is_err() {
            self.meter.asked(errand.by(Verb::Delete).tag, 0);
            // Its end is no news: what is left over is for the bucket's lifecycle rule.
            let _ = timeout(ABORT.min(errand.left()), upload.abort()).await;
        }
        done
    }
}

/// A part, or why there are no more.
type Next = std::result::Result<Bytes, Trouble>;

fn at_hand(parts: &[Bytes]) -> impl Stream<Item = Next> {
    futures_util::stream::iter(parts.iter().cloned().map(Ok))
}

/// Ends in trouble if there is no end.
fn parts_of(pieces: UnboundedReceiver<Piece>) -> impl Stream<Item = Next> {
    futures_util::stream::unfold(Some(pieces), |pieces| async {
        let mut pieces = pieces?;
        match pieces.recv().await {
            Some(Piece::Part(part)) => Some((Ok(part), Some(pieces))),
            Some(Piece::End) => None,
            None => Some((Err(Trouble::new(Class::Unreached, "it was given up")), None)),
        }
    })
}
