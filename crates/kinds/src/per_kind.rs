//! Values for each kind of a process, and the identifiers of kinds.

use std::{
    marker::PhantomData,
    ops::{Deref, DerefMut, Index, IndexMut},
};

/// An identifier of kinds: the place of one among all of its sort.
pub trait KindPlace: Copy {
    /// The kind at a place.
    fn at(place: usize) -> Self;

    /// The place.
    fn place(self) -> usize;
}

/// A federated kind of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct KindId(u16);

impl KindId {
    /// The first kind.
    pub const FIRST: Self = Self(0);

    /// The n-th kind; for tests and benches.
    pub const fn nth(n: u16) -> Self {
        Self(n)
    }
}

impl KindPlace for KindId {
    fn at(place: usize) -> Self {
        // More kinds than that cannot be served: each is watched on every plane.
        Self(u16::try_from(place).unwrap_or(u16::MAX))
    }

    fn place(self) -> usize {
        self.0.into()
    }
}

/// A value for each kind of a sort: a slice in the order of the kinds.
#[derive(Debug, Clone, Default)]
pub struct PerKind<T, K = KindId>(Box<[T]>, PhantomData<K>);

impl<T, K: KindPlace> PerKind<T, K> {
    /// The kinds.
    pub fn ids(&self) -> impl Iterator<Item = K> + Clone + use<T, K> {
        (0..self.0.len()).map(K::at)
    }

    /// The kinds with their values.
    pub fn enumerate(&self) -> impl Iterator<Item = (K, &T)> {
        self.ids().zip(&self.0)
    }

    /// Other values for the same kinds.
    pub fn map<U>(&self, value: impl FnMut(&T) -> U) -> PerKind<U, K> {
        self.0.iter().map(value).collect()
    }

    /// The first kind with such a value.
    pub fn position(&self, is: impl Fn(&T) -> bool) -> Option<K> {
        self.enumerate().find_map(|(id, value)| is(value).then_some(id))
    }
}

impl<T, K> FromIterator<T> for PerKind<T, K> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Self(values.into_iter().collect(), PhantomData)
    }
}

impl<T, K> From<Vec<T>> for PerKind<T, K> {
    fn from(values: Vec<T>) -> Self {
        Self(values.into(), PhantomData)
    }
}

impl<T, K: KindPlace> Index<K> for PerKind<T, K> {
    type Output = T;

    fn index(&self, id: K) -> &T {
        &self.0[id.place()]
    }
}

impl<T, K: KindPlace> IndexMut<K> for PerKind<T, K> {
    fn index_mut(&mut self, id: K) -> &mut T {
        &mut self.0[id.place()]
    }
}

impl<T, K> Deref for PerKind<T, K> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T, K> DerefMut for PerKind<T, K> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}
