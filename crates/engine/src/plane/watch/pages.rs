//! Page size of a list. A page that is too large or too slow is requested again with half as many objects; later pages
//! grow again, up to a target number of bytes per page, because tenants decide how large their objects are.

use std::time::Duration;

/// Maximum number of objects in the first page of a list, whose object sizes are not known yet.
const FIRST: u32 = 50;
/// After a page that took longer, the next page does not grow.
const QUICK: Duration = Duration::from_millis(2_500);

/// Form in which a page is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Objects, in a page small enough that many planes may read theirs at a time.
    Small,
    /// Objects, up to the maximum response size; only few such pages are read at a time.
    Large,
    /// Metadata of one object that is larger than that.
    Metadata,
}

/// Size and form of the next page.
#[derive(Debug, Clone)]
pub(super) struct Pages {
    most: u32,
    count: u32,
    form: Form,
    bytes: usize,
}

impl Pages {
    /// Pages of at most `most` objects and a target size of `bytes`.
    pub(super) fn new(most: u32, bytes: usize) -> Self {
        Self {
            most,
            count: most.min(FIRST),
            form: Form::Small,
            bytes,
        }
    }

    /// Maximum number of objects in the next page.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// The form of the next page.
    pub(super) fn form(&self) -> Form {
        self.form
    }

    /// Records that the page was larger than its form allows. True if it can be requested in another form or size.
    pub(super) fn too_large(&mut self) -> bool {
        match (self.form, self.count) {
            (Form::Small, _) => self.form = Form::Large,
            (Form::Large, 2..) => self.count /= 2,
            (Form::Large, _) => self.form = Form::Metadata,
            (Form::Metadata, _) => return false,
        }
        true
    }

    /// Records that the page did not arrive in time.
    pub(super) fn too_slow(&mut self) {
        self.count = (self.count / 2).max(1);
    }

    /// Records a page with this many objects and bytes, read in this time.
    pub(super) fn came(&mut self, objects: usize, bytes: usize, took: Duration) {
        let grown = if took < QUICK {
            self.count.saturating_mul(2)
        } else {
            self.count
        };
        let one = bytes / objects.max(1);
        let fitting = u32::try_from(self.bytes / one.max(1)).unwrap_or(u32::MAX);
        // A metadata page gives no estimate for the size of the objects after it.
        let fitting = if self.form == Form::Metadata { 1 } else { fitting };
        self.form = Form::Small;
        self.count = grown.min(fitting).clamp(1, self.most.max(1));
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Form::{Large, Metadata, Small},
        *,
    };

    const SOON: Duration = Duration::from_millis(1);

    #[test]
    fn pages_of_small_objects_grow_to_the_most_and_those_of_large_ones_to_so_many_bytes() {
        let mut small = Pages::new(500, 2_000_000);
        let mut counts = Vec::new();
        for _ in 0..6 {
            counts.push(small.count());
            small.came(small.count() as usize, small.count() as usize * 4_000, SOON);
        }
        assert_eq!(counts, [50, 100, 200, 400, 500, 500]);
        small.came(500, 500 * 20_000, SOON);
        assert_eq!(small.count(), 100);
        small.came(1, 10_000_000, SOON);
        assert_eq!(small.count(), 1);
        small.came(0, 100, SOON);
        assert_eq!(Pages::new(10, 100).count(), 10, "never more than the most");
    }

    #[test]
    fn a_page_that_is_too_large_is_asked_for_in_halves_down_to_the_metadata_of_one_object() {
        let mut pages = Pages::new(10, 1_000);
        let mut asked = Vec::new();
        loop {
            asked.push((pages.form(), pages.count()));
            if !pages.too_large() {
                break;
            }
        }
        assert_eq!(
            asked,
            [
                (Small, 10),
                (Large, 10),
                (Large, 5),
                (Large, 2),
                (Large, 1),
                (Metadata, 1)
            ]
        );
        pages.came(1, 300, SOON);
        assert_eq!((pages.form(), pages.count()), (Small, 1));
        pages.came(1, 100, SOON);
        assert_eq!((pages.form(), pages.count()), (Small, 2), "it grows back");
    }

    #[test]
    fn a_page_that_is_too_slow_is_halved_and_grows_while_pages_are_quick() {
        let mut pages = Pages::new(500, 1_000_000);
        for count in [50, 25, 12, 6, 3, 1, 1] {
            assert_eq!(pages.count(), count);
            pages.too_slow();
        }
        pages.came(1, 10, QUICK);
        assert_eq!(pages.count(), 1);
        pages.came(1, 10, SOON);
        assert_eq!((pages.form(), pages.count()), (Form::Small, 2));
    }
}
