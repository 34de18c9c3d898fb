//! Applies watch events to a table.

use crate::interner::Interner;
use crate::{
    plane::watch::WatchEvent,
    store::table::{Name, Origin, Row, Table, Upserted},
};
use kube::core::DynamicObject;

/// Change of a table row by an event.
#[derive(Debug)]
pub struct RowChange<D> {
    /// Namespace and name of the object.
    pub name: Name,
    /// The row before the event; `None` if the object is new.
    pub old: Option<Row<D>>,
}

/// Interners for the strings that digests share, such as names.
pub trait HasStrings {
    /// The interner for names.
    fn texts(&mut self) -> &mut Interner<str>;
}

impl HasStrings for Interner<str> {
    fn texts(&mut self) -> &mut Interner<str> {
        self
    }
}

/// Applies an event to a table; returns the changed rows, and true if the event completed the first list.
pub fn apply_event<D: PartialEq, W: HasStrings>(
    table: &mut Table<D>,
    event: WatchEvent,
    words: &mut W,
    mut read: impl FnMut(&DynamicObject, &mut W) -> D,
) -> (Vec<RowChange<D>>, bool) {
    let mut upsert = |table: &mut Table<D>, object: DynamicObject, origin| {
        let digest = read(&object, words);
        match table.upsert(object, digest, origin, words.texts()) {
            (_, Upserted::None) => Vec::new(),
            (name, Upserted::Changed(old)) => vec![RowChange { name, old }],
        }
    };
    match event {
        WatchEvent::Init => {
            table.begin_list();
            (Vec::new(), false)
        }
        WatchEvent::InitApply(object) => (upsert(table, *object, Origin::List), false),
        WatchEvent::Apply(object) => (upsert(table, *object, Origin::Event), false),
        WatchEvent::Written(object) => (upsert(table, *object, Origin::Answer), false),
        WatchEvent::Delete(object) => {
            let old = table.remove(&object);
            let meta = &object.metadata;
            let name = |text: &Option<String>| text.as_deref().unwrap_or_default().into();
            let delta = old.map(|old| RowChange {
                name: (name(&meta.namespace), name(&meta.name)),
                old: Some(old),
            });
            (delta.into_iter().collect(), false)
        }
        WatchEvent::Rewound => {
            table.rewind();
            (Vec::new(), false)
        }
        WatchEvent::Failed | WatchEvent::Resumed => {
            table.set_failing(matches!(event, WatchEvent::Failed));
            (Vec::new(), false)
        }
        WatchEvent::InitDone => {
            let (gone, first) = table.end_list();
            (
                gone.into_iter()
                    .map(|(name, row)| RowChange { name, old: Some(row) })
                    .collect(),
                first,
            )
        }
    }
}
