//! The user that a client certificate names, as a kube-apiserver reads it: common name and organizations.

use super::identity::Identity;
use fedgate_kubeconfig::der::{self, Elements};

const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];
const ORGANIZATION: [u8; 3] = [0x55, 0x04, 0x0a];

/// The user of a certificate that has been verified; `None` if it names none.
pub(crate) fn user(certificate: &[u8]) -> Option<Identity> {
    let (_, subject) = der::certificate(certificate)?.nth(4)?;
    let (mut user, mut groups) = (None, Vec::new());
    for (_, set) in Elements(subject) {
        let (_, pair) = Elements(set).next()?;
        let mut pair = Elements(pair);
        let ((_, kind), (_, text)) = (pair.next()?, pair.next()?);
        let text = String::from_utf8(text.to_vec()).ok()?;
        if kind == COMMON_NAME {
            user = Some(text);
        } else if kind == ORGANIZATION {
            groups.push(text);
        }
    }
    Some(Identity { user: user?, groups })
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
