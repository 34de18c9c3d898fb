//! Closed sets of words for metrics, answers and logs.

/// Declares an enum whose variants have a word each.
#[macro_export]
macro_rules! words {
    ($(#[$meta:meta])* $vis:vis enum $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $vis enum $name {
            $($(#[$doc])* $variant,)+
        }

        impl $name {
            /// All of them, in order.
            $vis const ALL: &[Self] = &[$(Self::$variant,)+];

            /// The words of all, in order.
            $vis const WORDS: &[&str] = &[$($word,)+];

            /// The word in metrics, answers and logs.
            $vis const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }
    };
}
