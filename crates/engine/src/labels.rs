//! Closed sets of words that are labels of metrics.

/// As [`words`](crate::words), with the conversion to a type of labels and a test of the words.
///
/// The type of labels has `new(&'static str)` and `label()`, as [`ReasonLabel`](crate::plan::ReasonLabel) has.
#[macro_export]
macro_rules! labels {
    ($(#[$meta:meta])* pub enum $name:ident: $label:path { $($body:tt)+ }) => {
        $crate::words! { $(#[$meta])* pub enum $name { $($body)+ } }

        impl $name {
            /// The word in metrics and logs.
            pub const fn label(self) -> &'static str {
                self.as_str()
            }
        }

        impl From<$name> for $label {
            fn from(value: $name) -> Self {
                Self::new(value.label())
            }
        }

        impl PartialEq<$name> for $label {
            fn eq(&self, other: &$name) -> bool {
                self.label() == other.label()
            }
        }

        #[cfg(test)]
        impl $name {
            fn check_words() {
                let words: std::collections::BTreeSet<&str> = Self::ALL.iter().map(|value| value.label()).collect();
                assert_eq!(words.len(), Self::ALL.len());
                for value in Self::ALL {
                    let letters = |c: char| c.is_ascii_lowercase() || c == '_';
                    assert!(value.label().chars().all(letters), "{value:?}");
                    assert!(<$label>::from(*value) == *value);
                }
            }
        }
    };
}
