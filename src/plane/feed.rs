//! Feeds what a watch tells to a table.

use super::{
    table::{Change, Name, Origin, Row, Table},
    watch::Event,
};
use crate::engine::pool::Pool;
use kube::core::DynamicObject;

/// What one event did to a table: an object that changed, with what was known of it before.
#[derive(Debug)]
pub struct Delta<D> {
    /// The object.
    pub name: Name,
    /// Its row before; `None` if it is new.
    pub old: Option<Row<D>>,
}

/// What digests share, names among it.
pub trait Texts {
    /// The names.
    fn texts(&mut self) -> &mut Pool<str>;
}

impl Texts for Pool<str> {
    fn texts(&mut self) -> &mut Pool<str> {
        self
    }
}

/// Feeds one event to one table; returns what changed and whether a first list was completed.
pub fn feed<D: PartialEq, W: Texts>(
    table: &mut Table<D>,
    event: Event,
    words: &mut W,
    mut read: impl FnMut(&DynamicObject, &mut W) -> D,
) -> (Vec<Delta<D>>, bool) {
    let mut upsert = |table: &mut Table<D>, object: DynamicObject, origin| {
        let digest = read(&object, words);
        match table.upsert(object, digest, origin, words.texts()) {
            (_, Change::None) => Vec::new(),
            (name, Change::Changed(old)) => vec![Delta { name, old }],
        }
    };
    match event {
        Event::Began => {
            table.begin_list();
            (Vec::new(), false)
        }
        Event::Listed(object) => (upsert(table, *object, Origin::List), false),
        Event::Applied(object) => (upsert(table, *object, Origin::Event), false),
        Event::Answered(object) => (upsert(table, *object, Origin::Answer), false),
        Event::Deleted(object) => {
            let old = table.remove(&object);
            let meta = &object.metadata;
            let name = |text: &Option<String>| text.as_deref().unwrap_or_default().into();
            let delta = old.map(|old| Delta {
                name: (name(&meta.namespace), name(&meta.name)),
                old: Some(old),
            });
            (delta.into_iter().collect(), false)
        }
        Event::Rewound => {
            table.rewind();
            (Vec::new(), false)
        }
        Event::Failed | Event::Resumed => {
            table.set_failing(matches!(event, Event::Failed));
            (Vec::new(), false)
        }
        Event::Complete => {
            let (gone, first) = table.end_list();
            (
                gone.into_iter()
                    .map(|(name, row)| Delta { name, old: Some(row) })
                    .collect(),
                first,
            )
        }
    }
}
