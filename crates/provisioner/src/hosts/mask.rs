//! Hides secrets in the output of commands.

/// Shown in place of what may be a secret.
const MASK: &str = "***";

/// Characters of an error that are shown.
const SHOWN: usize = 400;

/// The last [`SHOWN`] characters, masked. The first word of a long text is dropped, because it may be the end of a secret that was cut.
pub(super) fn masked_end(text: &str) -> String {
    let rest = text.split_once(' ').filter(|_| text.len() > SHOWN);
    let shown = masked(rest.map_or(text, |(_, rest)| rest));
    let skipped = shown.chars().count().saturating_sub(SHOWN);
    shown.chars().skip(skipped).collect()
}

/// The text without PEM blocks, bootstrap tokens, keys of certificates, bearer tokens and passwords in addresses.
pub(super) fn masked(text: &str) -> String {
    let (head, mut rest) = text.split_at(text.find("-----BEGIN ").unwrap_or(text.len()));
    // The end of a PEM block whose beginning was cut off.
    let mut shown = match head.split_once("-----END ") {
        Some((_, end)) => format!("{MASK}{}", words_masked(after_dashes(end))),
        None => words_masked(head),
    };
    while let Some((before, block)) = rest.split_once("-----BEGIN ") {
        shown.push_str(&words_masked(before));
        shown.push_str(MASK);
        // A block without an end lasts to the end of the text.
        let end = block.split_once("-----END ");
        rest = end.map_or("", |(_, end)| after_dashes(end));
    }
    shown + &words_masked(rest)
}

/// The text after the dashes that end a line `-----END …-----`.
fn after_dashes(text: &str) -> &str {
    text.split_once("-----").map_or("", |(_, after)| after)
}

fn words_masked(text: &str) -> String {
    let is_separator = |c: char| c.is_whitespace() || "\"'`\\=,;()[]{}<>".contains(c);
    let mut after_bearer = false;
    let words = text.split_inclusive(is_separator).map(|word| {
        let end = word.trim_end_matches(is_separator);
        let tail = &word[end.len()..];
        let is_secret = after_bearer || is_secret(end);
        after_bearer = end.eq_ignore_ascii_case("bearer") || (after_bearer && end.is_empty());
        if is_secret && !end.is_empty() {
            format!("{MASK}{tail}")
        } else {
            word.to_owned()
        }
    });
    words.collect()
}

fn is_secret(word: &str) -> bool {
    let word = word.trim_end_matches(['.', ':', '!']);
    let is_lower = |part: &str, length: usize| {
        part.len() == length
            && part
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    let is_token = word
        .rsplit(':')
        .next()
        .unwrap_or(word)
        .split_once('.')
        .is_some_and(|(id, secret)| is_lower(id, 6) && is_lower(secret, 16));
    // 64 hexadecimal digits may be a key of certificates. A hash of a certificate is no secret, and has the prefix `sha256:`.
    let is_key = word.len() >= 64 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_web_token = word.len() > 40 && word.starts_with("eyJ");
    let address = word.split_once("://").map_or("", |(_, rest)| rest);
    let user = address.split('/').next().and_then(|host| host.split_once('@'));
    let has_password = user.is_some_and(|(user, _)| user.contains(':'));
    is_token || is_key || is_web_token || has_password
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_a_secret_is_masked() {
        let key = "0123456789abcdef".repeat(4);
        let table = [
            (
                "kubeadm join --token abcdef.0123456789abcdef --v 5",
                "kubeadm join --token *** --v 5".to_owned(),
            ),
            (&*format!("key {key}, and"), "key ***, and".to_owned()),
            (&*format!("hash sha256:{key}"), format!("hash sha256:{key}")),
            (
                "-----BEGIN RSA PRIVATE KEY----- MII x -----END RSA PRIVATE KEY----- was",
                "*** was".to_owned(),
            ),
            (
                "x 3q2 -----END KEY----- token:abcdef.0123456789abcdef.",
                "*** ***".to_owned(),
            ),
            ("at -----BEGIN KEY----- MII", "at ***".to_owned()),
            (
                "Authorization: Bearer aaaa.bbb: no",
                "Authorization: Bearer *** no".to_owned(),
            ),
            (
                "https://u:p@x.example/y https://u@x.example",
                "*** https://u@x.example".to_owned(),
            ),
            (
                "the file docker.example.com/a.b is full",
                "the file docker.example.com/a.b is full".to_owned(),
            ),
        ];
        for (text, shown) in table {
            assert_eq!(masked(text), shown);
        }
    }
}
