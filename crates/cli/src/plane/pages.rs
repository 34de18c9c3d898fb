//! Lists, read page by page.

use super::{Resource, refusals::RequestInfo};
use crate::view::Object;
use kube::{
    Client,
    api::{ListParams, Request},
    core::ListMeta,
};
use serde::{Deserialize, de::Error as _};
use serde_json::Value;
use std::collections::BTreeSet;

/// Number of objects in a page of a list.
const PAGE: u32 = 500;

/// Code of an answer about a version that is no longer kept.
pub(super) const GONE: u16 = 410;

/// A list that is being read.
#[derive(Debug)]
pub(super) struct Pager {
    kind: Resource,
    /// True if the metadata of the objects is read alone.
    is_metadata: bool,
    request: Request,
    params: ListParams,
    /// The objects of the pages read so far.
    objects: Vec<Object>,
    tokens: BTreeSet<String>,
    has_begun_again: bool,
}

/// The objects of a list.
#[derive(Debug)]
pub(super) struct List {
    /// The objects.
    pub(super) objects: Vec<Object>,
    /// The version of the list, from which a watch goes on.
    pub(super) version: String,
}

/// A page as it comes.
#[derive(Deserialize)]
pub(super) struct Page {
    kind: String,
    #[serde(default)]
    metadata: ListMeta,
    items: Option<Vec<Value>>,
}

impl Pager {
    /// A list of which nothing was read yet. The parameters choose its objects.
    pub(super) fn new(asked: &RequestInfo<'_>, is_metadata: bool, params: ListParams) -> Self {
        Self {
            kind: asked.kind,
            is_metadata,
            request: Request::new(asked.kind.path(asked.namespace)),
            params: params.limit(PAGE),
            objects: Vec::new(),
            tokens: BTreeSet::new(),
            has_begun_again: false,
        }
    }

    /// Reads the next page.
    pub(super) async fn fetch(&self, client: &Client) -> kube::Result<Page> {
        let request = if self.is_metadata {
            self.request.list_metadata(&self.params)
        } else {
            self.request.list(&self.params)
        };
        client.request(request.map_err(kube::Error::BuildRequest)?).await
    }

    /// Takes over a page; returns the list once it is complete. Pages that expire are read again from the first on, once.
    pub(super) fn take(&mut self, page: kube::Result<Page>) -> kube::Result<Option<List>> {
        let page = match page {
            Err(kube::Error::Api(status))
                if status.code == GONE && self.params.continue_token.is_some() && !self.has_begun_again =>
            {
                self.has_begun_again = true;
                self.params.continue_token = None;
                self.objects.clear();
                self.tokens.clear();
                return Ok(None);
            }
            page => page?,
        };
        if !page.kind.ends_with("List") {
            return Err(undecodable("it is no list"));
        }
        let items = page.items.unwrap_or_default();
        let token = page.metadata.continue_.filter(|token| !token.is_empty());
        let repeats = |token: &String| items.is_empty() || !self.tokens.insert(token.clone());
        if token.as_ref().is_some_and(repeats) {
            return Err(undecodable("its pages repeat"));
        }
        self.objects
            .extend(items.into_iter().map(|item| self.kind.typed(item)));
        self.params.continue_token = token;
        Ok(self.params.continue_token.is_none().then(|| List {
            objects: std::mem::take(&mut self.objects),
            version: page.metadata.resource_version.unwrap_or_default(),
        }))
    }
}

fn undecodable(cause: &str) -> kube::Error {
    kube::Error::SerdeError(serde_json::Error::custom(cause))
}
