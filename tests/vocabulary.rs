//! The sources use the names of docs/design.md, and the documents its words.

// Helpers of tests fail by panicking, as tests do.
#![allow(clippy::unwrap_used)]

use regex::Regex;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Names that were replaced by standard ones. No item, field or local of `src` has them.
const OLD_NAMES: &[&str] = &[
    "Told",
    "Listener",
    "heed",
    "has_news",
    "Chance",
    "Words",
    "Texts",
    "Probes",
    "Rights",
    "Urgency",
    "wake_failed",
    "Exact",
    "Tolerated",
    "led_to",
    "Surroundings",
    "fought",
    "reread",
    "UnderWay",
    "HeldBack",
    "Tolerant",
    "Measurement",
    "TurnResult",
    "Leftovers",
    "Figures",
    "is_away",
    "revive",
    "out_of_turn",
    "try_turn",
    "Silence",
    "ASK_EVERY",
    "Began",
    "Trouble",
    "OfPlane",
    "CALM",
    "Follower",
    "Retired",
    "Overtaken",
    "for_once",
    "stop_writing",
    "contend",
    "Login",
    "Forgotten",
    "Delta",
    "bury",
    "Woken",
    "Tie",
    "Rival",
    "is_tied",
    "is_undecided",
    "forget_untied",
    "Crowd",
    "regroup",
    "lift_ban",
    "Saying",
    "has_returned",
    "may_carry",
    "uncarried_keys",
    "is_for_carrying",
    "Turn",
    "PASSES",
    "crossed",
    "STANDSTILL",
    "head_start",
    "READY_PATIENCE",
    "wake_everything",
    "Renewed",
    "Revived",
    "Permitted",
    "early_silence",
    "mend",
    "Standing",
    "LetGo",
    "judge_copy",
    "Reading",
    "Located",
    "knows_place",
    "quota_away",
    "MakeWay",
    "Conflicts",
    "Breaker",
    "Making",
    "Linking",
    "Asked",
    "Looked",
    "is_word",
    "Block",
    "Unfit",
    "Desk",
    "Front",
    "Shown",
    "Carried",
    "Steady",
    "woken",
    "rivals",
];

/// Words of the old language in documents.
const OLD_WORDS: &str =
    r"\b(woken|wakes|waking|heeds?|untied|condemned|rivals?|crowds?|forsaken?|give_back)\b";

/// A line of a document that begins with a pronoun for an unnamed thing.
const RIDDLE: &str = r"^(What|Who|Whom|Whose|Whoever|Whatever|Nobody|Somebody) ";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files(dir: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, ending, found);
        } else if path.extension().is_some_and(|e| e == ending) {
            found.push(path);
        }
    }
}

/// The sources of the program itself, without the packages of developers.
fn sources() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for part in ["src", "crates"] {
        files(&root().join(part), "rs", &mut found);
    }
    let name = |path: &PathBuf| path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
    let read = |path: PathBuf| (name(&path), fs::read_to_string(path).unwrap());
    let all: Vec<_> = found.into_iter().map(read).collect();
    assert!(all.len() > 150, "{} sources were found", all.len());
    all
}

fn documents() -> Vec<(String, String)> {
    let mut found = Vec::new();
    files(&root().join("docs"), "md", &mut found);
    found.retain(|path| !path.starts_with(root().join("docs/contract")));
    found.push(root().join("README.md"));
    let name = |path: &PathBuf| path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
    found
        .into_iter()
        .map(|path| (name(&path), fs::read_to_string(path).unwrap()))
        .collect()
}

/// A line's code, without strings and comments.
fn code(line: &str, strings: &Regex) -> String {
    let line = strings.replace_all(line, "\"\"");
    line.split("//").next().unwrap_or_default().to_owned()
}

/// The places in a source that use an old name.
fn faults(file: &str, text: &str, names: &Regex, strings: &Regex) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for name in names.find_iter(&code(line, strings)) {
            found.push(format!("{file}:{}: the name {}", number + 1, name.as_str()));
        }
    }
    found
}

fn names() -> [Regex; 2] {
    [
        Regex::new(&format!(r"\b({})\b", OLD_NAMES.join("|"))).unwrap(),
        Regex::new(r#""(?:\\.|[^"\\])*""#).unwrap(),
    ]
}

#[test]
fn sources_use_the_names_of_the_design() {
    let [names, strings] = names();
    let found: Vec<String> = sources()
        .iter()
        .flat_map(|(file, text)| faults(file, text, &names, &strings))
        .collect();
    assert!(found.is_empty(), "{} places:\n{}", found.len(), found.join("\n"));
}

/// The places in a source whose comment has an old word or begins with a pronoun for an unnamed thing.
fn riddles(file: &str, text: &str, words: &[Regex; 3]) -> Vec<String> {
    let [old, riddle, quoted] = words;
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            continue;
        };
        let plain = quoted.replace_all(comment.trim_start_matches(['/', '!']).trim_start(), "``");
        if let Some(word) = old.find(&plain).or_else(|| riddle.find(&plain)) {
            found.push(format!("{file}:{}: {}", number + 1, word.as_str()));
        }
    }
    found
}

fn comment_words() -> [Regex; 3] {
    let riddle = RIDDLE.replace("^(What", "^(One that|Of what|What");
    [OLD_WORDS, &riddle, "`[^`]*`"].map(|text| Regex::new(text).unwrap())
}

#[test]
fn comments_use_the_words_of_the_design() {
    let words = comment_words();
    let found: Vec<String> = sources()
        .iter()
        // Comments of the api are descriptions in its definitions.
        .filter(|(file, _)| !file.starts_with("crates/api/"))
        .flat_map(|(file, text)| riddles(file, text, &words))
        .collect();
    assert!(found.is_empty(), "{} places:\n{}", found.len(), found.join("\n"));
}

/// First words of a doc comment that stand for something which the comment does not name.
const PRONOUN: &str = r"^(Those|These|They|Their|Them|The same|That|This|Its?|Such|What|Who|Whom|Whose|Whoever|Whatever|One (?:that|of|in|with|who|which)|Of|Nobody|Somebody)\b";

/// The doc comments of a source that begin with such a word.
fn pronouns(file: &str, text: &str, pronoun: &Regex) -> Vec<String> {
    let doc = |line: &str| {
        line.trim_start()
            .strip_prefix("//")
            .filter(|rest| rest.starts_with(['/', '!']))
            .map(|rest| rest[1..].trim_start().to_owned())
    };
    let mut found = Vec::new();
    let mut is_inside = false;
    for (number, line) in text.lines().enumerate() {
        let comment = doc(line);
        if let Some(word) = comment
            .as_deref()
            .filter(|_| !is_inside)
            .and_then(|comment| pronoun.find(comment))
        {
            found.push(format!("{file}:{}: {}", number + 1, word.as_str()));
        }
        is_inside = comment.is_some();
    }
    found
}

/// A reader of one comment does not have the one before in mind. Some fields of a struct read well with `Its`.
#[test]
fn comments_begin_with_their_subjects() {
    let pronoun = Regex::new(PRONOUN).unwrap();
    let sources = sources();
    let all = sources
        .iter()
        .filter(|(file, _)| !file.starts_with("crates/api/"));
    let found: Vec<String> = all
        .flat_map(|(file, text)| pronouns(file, text, &pronoun))
        .collect();
    assert!(found.len() < 50, "{} places:\n{}", found.len(), found.join("\n"));
    let text = "/// The name.\n/// Its name.\nlet its = 1;\n    /// Its name.\n/// Those.\n// Its.\n";
    assert_eq!(pronouns("x.rs", text, &pronoun), ["x.rs:4: Its"]);
}

#[test]
fn a_riddle_is_found_in_comments_alone() {
    let text =
        "/// What follows.\nlet x = \"What \"; // Woken\n    // It woke `woken`.\n//! A key is woken.\n";
    assert_eq!(
        riddles("x.rs", text, &comment_words()),
        ["x.rs:1: What ", "x.rs:4: woken"]
    );
}

#[test]
fn documents_use_the_words_of_the_design() {
    let words = Regex::new(OLD_WORDS).unwrap();
    let riddle = Regex::new(RIDDLE).unwrap();
    let quoted = Regex::new("`[^`]*`").unwrap();
    let mut found = Vec::new();
    for (file, text) in documents() {
        let mut fenced = false;
        for (number, line) in text.lines().enumerate() {
            fenced ^= line.starts_with("```");
            // Names of tests are quoted.
            let plain = quoted.replace_all(line, "``");
            if fenced {
                continue;
            }
            if let Some(word) = words.find(&plain).or_else(|| riddle.find(&plain)) {
                found.push(format!("{file}:{}: {}", number + 1, word.as_str()));
            }
        }
    }
    assert!(found.is_empty(), "{} places:\n{}", found.len(), found.join("\n"));
}

#[test]
fn an_old_name_is_found_in_code_alone() {
    let [names, strings] = names();
    let text = "/// Of a Crowd.\nstruct Woken; // a Crowd\nlet plain = \"Woken\";\n";
    assert_eq!(faults("x.rs", text, &names, &strings), ["x.rs:2: the name Woken"]);
}

/// Keys that the formatter of log lines writes itself.
const RESERVED_FIELDS: &[&str] = &["timestamp", "level", "target", "message", "span", "spans"];

/// Macros that write a log line.
const LOG_MACROS: &str = "^(error|warn|info|debug|trace|event)$";

/// The fields of log lines of a source that have a reserved name.
fn reserved_fields(file: &str, text: &str) -> Vec<String> {
    struct Logs(Vec<String>, Regex);
    impl<'a> syn::visit::Visit<'a> for Logs {
        fn visit_macro(&mut self, found: &'a syn::Macro) {
            let name = found
                .path
                .segments
                .last()
                .map(|segment| segment.ident.to_string());
            if self.1.is_match(&name.unwrap_or_default()) {
                let line = found.path.segments[0].ident.span().start().line;
                let fields = field_names(found.tokens.clone());
                let reserved = fields
                    .into_iter()
                    .filter(|name| RESERVED_FIELDS.contains(&&**name));
                self.0
                    .extend(reserved.map(|name| format!("{line}: the field {name}")));
            }
        }
    }
    let parsed = syn::parse_file(text).unwrap();
    let mut logs = Logs(Vec::new(), Regex::new(LOG_MACROS).unwrap());
    syn::visit::visit_file(&mut logs, &parsed);
    let Logs(found, _) = logs;
    found.into_iter().map(|fault| format!("{file}:{fault}")).collect()
}

/// The names of the fields in the arguments of a log macro: before its text, `name = value`, `%name` or `?name`.
/// `target: value` is an argument of the macro, and no field.
fn field_names(arguments: proc_macro2::TokenStream) -> Vec<String> {
    use proc_macro2::TokenTree;
    let tokens: Vec<TokenTree> = arguments.into_iter().collect();
    let is = |token: &TokenTree, c: char| matches!(token, TokenTree::Punct(p) if p.as_char() == c);
    let mut names = Vec::new();
    for part in tokens.split(|token| is(token, ',')) {
        let mut part = part.iter().skip_while(|token| is(token, '%') || is(token, '?'));
        match (part.next(), part.next()) {
            (Some(TokenTree::Literal(_)), None) => break,
            (Some(TokenTree::Ident(name)), next) if !next.is_some_and(|next| is(next, ':')) => {
                names.push(name.to_string());
            }
            _ => {}
        }
    }
    names
}

#[test]
fn fields_of_log_lines_have_no_name_of_the_formatter() {
    let mut found = Vec::new();
    files(&root().join("src"), "rs", &mut found);
    files(&root().join("crates"), "rs", &mut found);
    // Its tests are about such names.
    found.retain(|path| !path.ends_with("src/telemetry/json.rs"));
    let faults = found.iter().flat_map(|path| {
        let name = path.strip_prefix(root()).unwrap().to_str().unwrap();
        reserved_fields(name, &fs::read_to_string(path).unwrap())
    });
    let faults: Vec<String> = faults.collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_reserved_field_is_found_in_each_form() {
    let text = r#"fn f() {
        tracing::info!(target: "x", %plane, detail = f(message, 1), "text with {}", message);
        tracing::warn!(%key, message, "x");
        warn!(level = 1, ?spans, "x");
        tracing::error!(plane = %a.target, %span, "x");
    }"#;
    assert_eq!(
        reserved_fields("x.rs", text),
        [
            "x.rs:3: the field message",
            "x.rs:4: the field level",
            "x.rs:4: the field spans",
            "x.rs:5: the field span"
        ]
    );
}
