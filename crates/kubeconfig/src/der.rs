//! Elements of DER, of which certificates are made. Nothing is verified.

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;

/// The elements of a value, each with its tag and its content. They end before one that is not whole.
#[derive(Debug, Clone)]
pub struct Elements<'a>(pub &'a [u8]);

impl<'a> Iterator for Elements<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, mut rest) = rest.split_first()?;
        let mut length = usize::from(first);
        if first >= 0x80 {
            let count = usize::from(first & 0x7f);
            let (bytes, after) = rest
                .split_at_checked(count)
                .filter(|_| (1..=4).contains(&count))?;
            length = bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
            rest = after;
        }
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, content))
    }
}

/// The fields of a certificate after its version: serial number, algorithm, issuer, validity, subject and more.
pub fn certificate(der: &[u8]) -> Option<Elements<'_>> {
    let inside = |der| Elements(der).next().filter(|(tag, _)| *tag == SEQUENCE);
    let (_, fields) = inside(inside(der)?.1)?;
    let (fields, mut rest) = (Elements(fields), Elements(fields));
    let has_version = rest.next()?.0 == VERSION;
    Some(if has_version { rest } else { fields })
}
