//! Values for each federated kind, and the identifier of a kind.

use std::ops::{Deref, DerefMut, Index, IndexMut};

/// A federated kind of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KindId(u16);

impl KindId {
    /// The first kind.
    pub const FIRST: Self = Self(0);

    /// The n-th kind; for tests and benches.
    pub const fn nth(n: u16) -> Self {
        Self(n)
    }
}

/// A value for each federated kind: a slice in the order of the kinds.
#[derive(Debug, Clone, Default)]
pub struct PerKind<T>(Box<[T]>);

impl<T> PerKind<T> {
    /// The kinds.
    pub fn ids(&self) -> impl Iterator<Item = KindId> + Clone + use<T> {
        // More kinds than that cannot be served: each is watched on every plane.
        (0..u16::try_from(self.0.len()).unwrap_or(u16::MAX)).map(KindId)
    }

    /// The kinds with their values.
    pub fn enumerate(&self) -> impl Iterator<Item = (KindId, &T)> {
        self.ids().zip(&self.0)
    }

    /// Other values for the same kinds.
    pub fn map<U>(&self, value: impl FnMut(&T) -> U) -> PerKind<U> {
        self.0.iter().map(value).collect()
    }

    /// The first kind with such a value.
    pub fn position(&self, is: impl Fn(&T) -> bool) -> Option<KindId> {
        self.enumerate().find_map(|(id, value)| is(value).then_some(id))
    }
}

impl<T> FromIterator<T> for PerKind<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

impl<T> From<Vec<T>> for PerKind<T> {
    fn from(values: Vec<T>) -> Self {
        Self(values.into())
    }
}

impl<T> Index<KindId> for PerKind<T> {
    type Output = T;

    fn index(&self, id: KindId) -> &T {
        &self.0[usize::from(id.0)]
    }
}

impl<T> IndexMut<KindId> for PerKind<T> {
    fn index_mut(&mut self, id: KindId) -> &mut T {
        &mut self.0[usize::from(id.0)]
    }
}

impl<T> Deref for PerKind<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T> DerefMut for PerKind<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}
