//! Pages of lists.

use crate::{
    Rows,
    query::{From, PageQuery},
};

/// A page of rows that are in order of their names: it begins after a name, so that rows that appear or disappear shift
/// no other.
pub fn by_name<T>(rows: Vec<T>, page: &PageQuery, name: impl Fn(&T) -> &str) -> Rows<T> {
    let begin = match &page.from {
        From::Start => 0,
        From::After(last) => rows.partition_point(|row| name(row) <= last.as_str()),
        From::Skip(count) => *count,
    };
    let mut rows = cut(rows, begin, page.limit);
    rows.next = rows.next.take().and_then(|_| {
        let last = rows.items.last()?;
        Some(From::After(name(last).to_owned()))
    });
    rows
}

/// A page of rows in another order: it begins after a number of rows.
pub fn by_rank<T>(rows: Vec<T>, page: &PageQuery) -> Rows<T> {
    let begin = match &page.from {
        From::Skip(count) => *count,
        From::Start | From::After(_) => 0,
    };
    cut(rows, begin, page.limit)
}

fn cut<T>(rows: Vec<T>, begin: usize, limit: usize) -> Rows<T> {
    let total = rows.len();
    let items: Vec<T> = rows.into_iter().skip(begin).take(limit).collect();
    let end = begin.saturating_add(items.len());
    let remaining = total.saturating_sub(end);
    Rows {
        items,
        next: (remaining > 0).then_some(From::Skip(end)),
        remaining,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(limit: usize, from: From) -> PageQuery {
        PageQuery { limit, from }
    }

    #[test]
    fn pages_by_name_miss_and_double_no_row_that_stays() {
        let names = |range: std::ops::Range<u32>| range.map(|n| format!("p{n:03}")).collect::<Vec<_>>();
        let first = by_name(names(0..10), &page(4, From::Start), |name| name);
        assert_eq!((first.items, first.remaining), (names(0..4), 6));
        assert_eq!(first.next, Some(From::After("p003".to_owned())));
        // Meanwhile the first three rows and the last one of the page are gone, and another one has come before it.
        let mut rows = names(4..10);
        rows.insert(0, "p000a".to_owned());
        let second = by_name(rows, &page(4, first.next.unwrap()), |name| name);
        assert_eq!((second.items, second.remaining), (names(4..8), 2));
        let third = by_name(names(4..10), &page(4, second.next.unwrap()), |name| name);
        assert_eq!(
            (third.items, third.next, third.remaining),
            (names(8..10), None, 0)
        );
    }

    #[test]
    fn pages_by_rank_begin_after_a_number_of_rows() {
        let second = by_rank((0..5).collect::<Vec<_>>(), &page(2, From::Skip(2)));
        assert_eq!((second.items, second.next), (vec![2, 3], Some(From::Skip(4))));
        let beyond = by_rank((0..5).collect::<Vec<_>>(), &page(2, From::Skip(usize::MAX)));
        assert_eq!((beyond.items, beyond.next, beyond.remaining), (vec![], None, 0));
    }
}
