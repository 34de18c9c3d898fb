//! Questions (contract: cli.md §5): written to stderr, answered by a line of stdin.

use crate::{
    error::{Error, Kind},
    output::table::escape,
};
use std::io::{self, BufRead, IsTerminal, Write};

/// Number of answers before a question counts as declined.
const ATTEMPTS: usize = 3;

/// The answer to an empty line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Yes.
    Yes,
    /// No: nobody loses something by pressing a key.
    No,
}

/// A question before a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Question {
    /// The text, e.g. `Apply?`.
    pub(crate) text: String,
    /// The answer to an empty line.
    pub(crate) default: Answer,
    /// The command that asks.
    pub(crate) asks: &'static str,
    /// The line that was typed, for the hint to add `--yes`.
    pub(crate) line: String,
}

/// True if a question can be asked: somebody reads stderr and types.
pub(crate) fn is_terminal() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

impl Question {
    /// Asks, unless `yes` answers it. Without a terminal, a question whose default is no is refused, another one is answered yes.
    pub(crate) async fn confirm(&self, yes: bool) -> Result<(), Error> {
        if yes {
            return Ok(());
        }
        if !is_terminal() {
            if self.default == Answer::Yes {
                return Ok(());
            }
            let what = format!("{} needs confirmation and stdin is no terminal", self.asks);
            return Err(Error::new(Kind::NotConfirmed, what).next(format!("{} --yes", self.line)));
        }
        let question = self.clone();
        let answer = tokio::task::spawn_blocking(move || {
            ask(&question, &mut io::stdin().lock(), &mut io::stderr().lock())
        });
        match answer.await {
            Ok(true) => Ok(()),
            Ok(false) | Err(_) => Err(Error::new(Kind::Declined, "Nothing changed.")),
        }
    }
}

fn ask(question: &Question, input: &mut impl BufRead, output: &mut impl Write) -> bool {
    let choices = match question.default {
        Answer::Yes => "(Y/n)",
        Answer::No => "(y/N)",
    };
    for _ in 0..ATTEMPTS {
        let asked = write!(output, "{} {choices} ", escape(&question.text)).and_then(|()| output.flush());
        let mut line = String::new();
        // The end of the input is a no, as is a terminal that is gone.
        if asked.is_err() || !input.read_line(&mut line).is_ok_and(|length| length > 0) {
            return false;
        }
        match line.trim().to_ascii_lowercase().as_str() {
            "" => return question.default == Answer::Yes,
            "y" | "yes" => return true,
            "n" | "no" => return false,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(default: Answer, input: &str) -> (bool, String) {
        let question = Question {
            text: "Apply?".to_owned(),
            default,
            asks: "deploy",
            line: String::new(),
        };
        let mut output = Vec::new();
        let yes = ask(&question, &mut input.as_bytes(), &mut output);
        (yes, String::from_utf8(output).unwrap())
    }

    #[test]
    fn answers_are_read_in_any_case_and_an_empty_one_is_the_capital() {
        for (default, input, yes) in [
            (Answer::No, "yes\n", true),
            (Answer::No, "Y\n", true),
            (Answer::Yes, "No\n", false),
            (Answer::Yes, "n\n", false),
            (Answer::Yes, "\n", true),
            (Answer::No, "\n", false),
            (Answer::Yes, "", false),
            (Answer::No, "maybe\ny\n", true),
        ] {
            assert_eq!(answered(default, input).0, yes, "{default:?} {input:?}");
        }
    }

    #[test]
    fn a_name_in_a_question_moves_no_cursor() {
        let question = Question {
            text: "Delete \u{1b}[8mweb?".to_owned(),
            default: Answer::No,
            asks: "destroy",
            line: String::new(),
        };
        let mut output = Vec::new();
        assert!(ask(&question, &mut "y\n".as_bytes(), &mut output));
        assert_eq!(output, b"Delete \\u{1b}[8mweb? (y/N) ");
    }

    #[test]
    fn three_bad_answers_are_a_no() {
        let (yes, asked) = answered(Answer::Yes, "a\nb\nc\ny\n");
        assert!(!yes);
        assert_eq!(asked, "Apply? (Y/n) ".repeat(3));
    }
}
