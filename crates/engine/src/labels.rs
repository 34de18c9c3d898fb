//! Closed sets of words for metrics, answers and logs.

/// Declares an enum whose variants have a word each.
#[macro_export]
macro_rules! words {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$doc])* $variant,)+
        }

        impl $name {
            /// All of them, in order.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// The words of all, in order.
            pub const WORDS: &[&str] = &[$($word,)+];

            /// The word in metrics, answers and logs.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }
    };
}

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
