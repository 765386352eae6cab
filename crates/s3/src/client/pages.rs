//! Lists, a page at a time, in the order of names' bytes.
//!
//! S3 lists in that order, and from any prefix of a name: one page is one request. Other stores list folders, or in no
//! order: then all names are looked at for each page.

use std::collections::BTreeMap;

use futures_util::StreamExt;
use object_store::ObjectMeta;
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::Path;
use siltstone_cloud::{Call, Page, Result, Stat};

use super::reads::stat;
use super::{Client, Errand, Got, Load};
use crate::meter::Verb;
use crate::trouble::{Class, Trouble};

/// As S3 has it.
pub(crate) const PAGE: usize = 1000;

/// The first names of those that are wanted.
struct First<'a> {
    root: &'a str,
    prefix: &'a str,
    after: &'a str,
    names_max: usize,
    found: BTreeMap<String, Stat>,
    /// More were seen.
    is_full: bool,
}

/// Which names a list is to bring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) prefix: &'a str,
    pub(crate) after: &'a str,
    pub(crate) names_max: usize,
}

impl Client {
    /// [`Bucket::list`](siltstone_cloud::Bucket::list), by pages of any size.
    pub(crate) async fn list(&self, wanted: Wanted<'_>, call: Call) -> Result<Page> {
        let errand = Errand::new(wanted.prefix, Verb::List, call);
        let listed = self.ask(&errand, || async {
            match &self.backend.pages {
                Some(pages) => self.list_pages(&errand, pages.as_ref(), wanted).await,
                None => self.attempt(&errand, Load::Unknown, self.list_all(wanted)).await,
            }
        });
        listed.await.map_err(|trouble| self.error(&errand, &trouble, false))
    }

    async fn list_pages(
        &self,
        errand: &Errand,
        store: &dyn PaginatedListStore,
        wanted: Wanted<'_>,
    ) -> std::result::Result<Page, Trouble> {
        let mut first = First::new(&self.root, wanted);
        let mut token = None;
        loop {
            let options = PaginatedListOptions {
                // Servers without order have no place to begin at.
                offset: Some(self.key(wanted.after))
                    .filter(|_| self.backend.sorted && !wanted.after.is_empty()),
                max_keys: Some(wanted.names_max),
                page_token: token,
                ..PaginatedListOptions::default()
            };
            let ask = async {
                let key = self.key(wanted.prefix);
                let answer = store.list_paginated(Some(&key), options).await;
                Ok((answer.map_err(|error| Trouble::of(&error))?, 0))
            };
            let answer = self.attempt(errand, Load::Brings(0), ask).await?;
            answer.result.objects.iter().try_for_each(|meta| first.see(meta))?;
            token = answer.page_token;
            // An empty page would be the end, so one that had only names of others is no page yet.
            if token.is_none() || (self.backend.sorted && !first.found.is_empty()) {
                return Ok(first.into_page(token.is_none()));
            }
        }
    }

    async fn list_all(&self, wanted: Wanted<'_>) -> Got<Page> {
        let key = self.key(wanted.prefix);
        // The folder that all of these names lie in.
        let folder = key.rsplit_once('/').map_or("", |(folder, _)| folder);
        let folder =
            Path::parse(folder).map_err(|_| Trouble::new(Class::Wrong, "no prefix of a name"))?;
        let mut first = First::new(&self.root, wanted);
        let mut names = self.backend.objects.list(Some(&folder).filter(|f| !f.as_ref().is_empty()));
        while let Some(meta) = names.next().await {
            first.see(&meta.map_err(|error| Trouble::of(&error))?)?;
        }
        Ok((first.into_page(true), 0))
    }
}

impl<'a> First<'a> {
    fn new(root: &'a str, wanted: Wanted<'a>) -> Self {
        let Wanted { prefix, after, names_max } = wanted;
        First { root, prefix, after, names_max, found: BTreeMap::new(), is_full: false }
    }

    fn see(&mut self, meta: &ObjectMeta) -> std::result::Result<(), Trouble> {
        let key = meta.location.as_ref();
        let name = match self.root {
            "" => Some(key),
            root => key.strip_prefix(root).and_then(|name| name.strip_prefix('/')),
        };
        let Some(name) = name.filter(|name| name.starts_with(self.prefix) && *name > self.after)
        else {
            return Ok(());
        };
        self.found.insert(name.to_owned(), stat(name, meta)?);
        if self.found.len() > self.names_max {
            self.found.pop_last();
            self.is_full = true;
        }
        Ok(())
    }

    /// Of all names, or of those up to here.
    fn into_page(self, is_all: bool) -> Page {
        Page { stats: self.found.into_values().collect(), is_last: is_all && !self.is_full }
    }
}
