//! Lists, read page by page, and objects, decoded one by one: none that cannot be decoded hides the others.

use super::{Plane, Resource, Scope};
use crate::{error::Error, output::warn, view::Object};
use kube::{
    Client,
    api::{ListParams, Request},
};
use serde::{Deserialize, de::Error as _};
use serde_json::{Value, json, value::RawValue};
use std::collections::BTreeSet;

/// Number of objects in a page of a list.
const PAGE: u32 = 500;

/// Code of an answer about a version that is no longer kept.
pub(super) const GONE: u16 = 410;

/// The part of its objects that a list has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// All of it.
    Whole,
    /// The metadata alone.
    Metadata,
}

/// A list that is being read.
#[derive(Debug)]
pub(super) struct Pager {
    kind: Resource,
    part: Part,
    request: Request,
    params: ListParams,
    /// The pages read so far.
    list: List,
    tokens: BTreeSet<String>,
    has_begun_again: bool,
}

/// The objects of a list.
#[derive(Debug, Default)]
pub(super) struct List {
    /// The objects.
    pub(super) objects: Vec<Object>,
    /// Those that cannot be decoded.
    pub(super) unreadable: Vec<Unreadable>,
    /// The version of the list, from which a watch goes on.
    pub(super) version: String,
}

/// An object that cannot be decoded.
#[derive(Debug)]
pub(super) struct Unreadable {
    /// Its name; empty if not even that can be decoded.
    pub(super) name: String,
    /// The decoder's words.
    pub(super) cause: String,
}

/// A page as it comes.
#[derive(Deserialize)]
struct Page<'a> {
    kind: String,
    #[serde(default)]
    metadata: PageMeta,
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize, Default)]
struct PageMeta {
    #[serde(rename = "resourceVersion", default)]
    version: String,
    #[serde(rename = "continue", default)]
    token: Option<String>,
}

impl Pager {
    /// A list of which nothing was read yet. The parameters choose its objects.
    pub(super) fn new(kind: Resource, scope: Scope<'_>, part: Part, params: ListParams) -> Self {
        Self {
            kind,
            part,
            request: Request::new(kind.path(scope)),
            params: params.limit(PAGE),
            list: List::default(),
            tokens: BTreeSet::new(),
            has_begun_again: false,
        }
    }

    /// Reads the next page.
    pub(super) async fn fetch(&self, client: &Client) -> kube::Result<String> {
        let request = match self.part {
            Part::Whole => self.request.list(&self.params),
            Part::Metadata => self.request.list_metadata(&self.params),
        };
        let request = request.map_err(kube::Error::BuildRequest)?;
        client.request_text(request).await
    }

    /// Takes over a page; returns the list once it is complete. Pages that expire are read again from the first on, once.
    pub(super) fn take(&mut self, page: kube::Result<String>) -> kube::Result<Option<List>> {
        let text = match page {
            Err(kube::Error::Api(status))
                if status.code == GONE && self.params.continue_token.is_some() && !self.has_begun_again =>
            {
                self.begin_again();
                return Ok(None);
            }
            page => page?,
        };
        let page: Page<'_> = serde_json::from_str(&text).map_err(kube::Error::SerdeError)?;
        if !page.kind.ends_with("List") {
            return Err(undecodable("it is no list"));
        }
        let items = page.items.unwrap_or_default();
        let token = page.metadata.token.filter(|token| !token.is_empty());
        let repeats = |token: &String| items.is_empty() || !self.tokens.insert(token.clone());
        if token.as_ref().is_some_and(repeats) {
            return Err(undecodable("its pages repeat"));
        }
        for item in items {
            match decode(item, self.kind) {
                Ok(object) => self.list.objects.push(object),
                Err(unreadable) => self.list.unreadable.push(unreadable),
            }
        }
        self.list.version = page.metadata.version;
        self.params.continue_token = token;
        Ok(match self.params.continue_token {
            Some(_) => None,
            None => Some(std::mem::take(&mut self.list)),
        })
    }

    fn begin_again(&mut self) {
        self.has_begun_again = true;
        self.params.continue_token = None;
        self.list = List::default();
        self.tokens.clear();
    }
}

fn undecodable(cause: &str) -> kube::Error {
    kube::Error::SerdeError(serde_json::Error::custom(cause))
}

/// The object with its types, which items of a list lack.
pub(super) fn decode(raw: &RawValue, kind: Resource) -> Result<Object, Unreadable> {
    let unreadable = |cause: String| Unreadable {
        name: Identity::of(raw).name,
        cause,
    };
    let mut value: Value = serde_json::from_str(raw.get()).map_err(|error| unreadable(error.to_string()))?;
    let Some(fields) = value.as_object_mut() else {
        return Err(unreadable("it is no object".to_owned()));
    };
    let resource = kind.api();
    fields.insert("apiVersion".to_owned(), json!(resource.api_version));
    fields.insert("kind".to_owned(), json!(resource.kind));
    Ok(Object(value))
}

/// Name and version of an object, which can be read even if the rest cannot be decoded.
#[derive(Debug, Default)]
pub(super) struct Identity {
    /// The name.
    pub(super) name: String,
    /// The version.
    pub(super) version: String,
}

impl Identity {
    /// Reads them; empty if even they cannot be read.
    pub(super) fn of(raw: &RawValue) -> Self {
        #[derive(Deserialize)]
        struct Outer {
            metadata: Inner,
        }
        #[derive(Deserialize)]
        struct Inner {
            #[serde(default)]
            name: String,
            #[serde(rename = "resourceVersion", default)]
            version: String,
        }
        let read: Result<Outer, _> = serde_json::from_str(raw.get());
        read.map(|Outer { metadata }| Self {
            name: metadata.name,
            version: metadata.version,
        })
        .unwrap_or_default()
    }
}

impl Plane {
    /// Warns once that an object is left out.
    pub(super) fn leave_out(&self, kind: Resource, unreadable: &Unreadable) {
        let Unreadable { name, cause } = unreadable;
        if self.warns && self.left_out.lock().insert((kind, name.clone())) {
            warn(&format!(
                "{} {name:?} cannot be decoded and is left out: {cause}",
                kind.noun()
            ));
        }
    }

    /// The error about an object that cannot be decoded and that a command needs.
    pub(super) fn undecodable(kind: Resource, unreadable: &Unreadable) -> Error {
        let Unreadable { name, cause } = unreadable;
        let what = match &**name {
            "" => format!("the answer about {} cannot be decoded", kind.plural()),
            name => format!("{} {name:?} cannot be decoded", kind.noun()),
        };
        Error::new(crate::error::Kind::Failed, what).because(cause)
    }
}
