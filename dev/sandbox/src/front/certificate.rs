//! The user that a client certificate names, as a kube-apiserver reads it: common name and organizations.

use super::identity::Identity;

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_ID: u8 = 0x06;
const VERSION: u8 = 0xa0;
const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];
const ORGANIZATION: [u8; 3] = [0x55, 0x04, 0x0a];

/// The user of a certificate that has been verified; `None` if it names none.
pub(crate) fn user(certificate: &[u8]) -> Option<Identity> {
    let (content, _) = tagged(certificate, SEQUENCE)?;
    let (mut rest, _) = tagged(content, SEQUENCE)?;
    if rest.first() == Some(&VERSION) {
        rest = element(rest)?.2;
    }
    // Serial number, algorithm, issuer, validity.
    for _ in 0..4 {
        rest = element(rest)?.2;
    }
    let (mut names, _) = tagged(rest, SEQUENCE)?;
    let (mut user, mut groups) = (None, Vec::new());
    while !names.is_empty() {
        let (set, next) = tagged(names, SET)?;
        let (pair, _) = tagged(set, SEQUENCE)?;
        let (kind, text) = tagged(pair, OBJECT_ID)?;
        let text = String::from_utf8(element(text)?.1.to_vec()).ok()?;
        if kind == COMMON_NAME {
            user = Some(text);
        } else if kind == ORGANIZATION {
            groups.push(text);
        }
        names = next;
    }
    Some(Identity { user: user?, groups })
}

/// The first element, if it has that tag: its content, and what follows it.
fn tagged(input: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, content, rest) = element(input)?;
    (found == tag).then_some((content, rest))
}

/// The first element of DER: its tag, its content, and what follows it.
fn element(input: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, input) = input.split_first()?;
    let (&first, mut input) = input.split_first()?;
    let mut length = usize::from(first & 0x7f);
    if first & 0x80 != 0 {
        let (bytes, rest) = input.split_at_checked(length)?;
        if bytes.len() > 4 {
            return None;
        }
        length = bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        input = rest;
    }
    let (content, rest) = input.split_at_checked(length)?;
    Some((tag, content, rest))
}

#[cfg(test)]
mod tests {
    use super::user;
    use crate::certs::Authority;
    use rustls::pki_types::{CertificateDer, pem::PemObject};

    #[test]
    fn name_and_group_are_read_and_garbage_is_not() {
        let authority = Authority::new().unwrap();
        for (name, group) in [("admin", Some("system:masters")), ("fedgate-gateway", None)] {
            let pair = authority.client(name, group).unwrap();
            let der = CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap();
            let found = user(&der).unwrap();
            assert_eq!(found.user, name);
            assert_eq!(found.groups, group.into_iter().collect::<Vec<_>>());
            for end in 0..der.len() {
                assert!(user(&der[..end]).is_none(), "cut at {end}");
            }
        }
    }
}
