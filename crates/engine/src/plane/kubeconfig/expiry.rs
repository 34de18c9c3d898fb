//! The end of a credential, as far as it says it: of a token that is a JWT, and of certificates. Nothing is verified.

use fedgate_kubeconfig::{
    der::{self, Elements},
    token_times,
};
use jiff::{civil::DateTime, tz::TimeZone};
use rustls::pki_types::{CertificateDer, pem::PemObject};

crate::words! {
    /// Part of a credential that ends.
    pub enum Part {
        /// The bearer token.
        Token = "token",
        /// The client certificate.
        Certificate = "client certificate",
        /// The certificate authority of the server.
        Authority = "certificate authority",
    }
}

/// The earliest known end of a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expiry {
    /// The end in seconds since the epoch.
    pub at: i64,
    /// The part that ends first.
    pub part: Part,
}

crate::words! {
    /// The time left to a credential, in steps: each is logged once, and metrics count credentials by it.
    pub enum TimeLeft {
        /// None: it has expired.
        Expired = "expired",
        /// At most a day.
        Day = "day",
        /// At most seven days.
        Week = "week",
        /// More than seven days.
        Later = "later",
        /// The credential does not say when it ends.
        Unknown = "unknown",
    }
}

impl TimeLeft {
    const DAY: i64 = 24 * 60 * 60;

    /// The time that is left at `now`, in seconds since the epoch.
    pub fn of(expiry: Option<Expiry>, now: i64) -> Self {
        let Some(left) = expiry.map(|expiry| expiry.at.saturating_sub(now)) else {
            return Self::Unknown;
        };
        if left <= 0 {
            Self::Expired
        } else if left <= Self::DAY {
            Self::Day
        } else if left <= 7 * Self::DAY {
            Self::Week
        } else {
            Self::Later
        }
    }
}

/// The earliest end of a token, of the first certificate of a PEM chain, and of the last authority of a PEM bundle: while
/// authorities are exchanged, a bundle has an old one too.
pub(super) fn earliest(
    token: Option<&str>,
    certificate: Option<&[u8]>,
    authority: Option<&[u8]>,
) -> Option<Expiry> {
    let ends = |pem: Option<&[u8]>| -> Vec<i64> {
        let certificates = CertificateDer::pem_slice_iter(pem.unwrap_or_default());
        certificates.filter_map(|found| not_after(&found.ok()?)).collect()
    };
    let parts = [
        (Part::Token, token.and_then(token_times).map(|times| times.ends)),
        (Part::Certificate, ends(certificate).first().copied()),
        (Part::Authority, ends(authority).into_iter().max()),
    ];
    let known = parts
        .into_iter()
        .filter_map(|(part, at)| Some(Expiry { at: at?, part }));
    known.min_by_key(|expiry| expiry.at)
}

/// `notAfter` of a certificate in DER, in seconds since the epoch.
fn not_after(certificate: &[u8]) -> Option<i64> {
    let (_, validity) = der::certificate(certificate)?.nth(3)?;
    let (tag, text) = Elements(validity).nth(1)?;
    time(tag, std::str::from_utf8(text).ok()?)
}

/// A `UTCTime` (`YYMMDDhhmmssZ`) or `GeneralizedTime` (`YYYYMMDDhhmmssZ`).
fn time(tag: u8, text: &str) -> Option<i64> {
    const UTC_TIME: u8 = 0x17;
    let year = if tag == UTC_TIME { "%y" } else { "%Y" };
    let time = DateTime::strptime(format!("{year}%m%d%H%M%SZ"), text).ok()?;
    Some(time.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second())
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    fn certificate(year: i32) -> String {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut parameters = rcgen::CertificateParams::new(vec!["server".to_owned()]).unwrap();
        parameters.not_after = rcgen::date_time_ymd(year, 3, 4);
        parameters.self_signed(&key).unwrap().pem()
    }

    fn at(text: &str) -> i64 {
        text.parse::<Timestamp>().unwrap().as_second()
    }

    /// A JWT with these claims in base64url.
    fn jwt(claims: &str) -> String {
        format!("e30.{claims}.c2ln")
    }

    #[test]
    fn the_end_of_a_certificate_is_read_in_both_forms() {
        for (year, text) in [(2027, "2027-03-04T00:00:00Z"), (2060, "2060-03-04T00:00:00Z")] {
            let found = earliest(None, Some(certificate(year).as_bytes()), None);
            let part = Part::Certificate;
            assert_eq!(found, Some(Expiry { at: at(text), part }));
        }
        let der = CertificateDer::from_pem_slice(certificate(2027).as_bytes()).unwrap();
        for end in 0..der.len().min(160) {
            assert_eq!(not_after(&der[..end]), None, "a part of a certificate");
        }
    }

    #[test]
    fn the_time_left_is_counted_in_days_and_weeks() {
        let day = 86_400;
        let table = [
            (0, TimeLeft::Expired),
            (1, TimeLeft::Day),
            (day, TimeLeft::Day),
            (day + 1, TimeLeft::Week),
            (7 * day, TimeLeft::Week),
            (7 * day + 1, TimeLeft::Later),
        ];
        for (left, expected) in table {
            let part = Part::Token;
            let expiry = Expiry {
                at: 1_000 + left,
                part,
            };
            assert_eq!(TimeLeft::of(Some(expiry), 1_000), expected, "{left}");
        }
        assert_eq!(TimeLeft::of(None, 0), TimeLeft::Unknown);
    }

    #[test]
    fn the_earliest_part_counts_and_of_authorities_the_last() {
        let authorities = [certificate(2026), certificate(2029)].concat();
        let pem = certificate(2030);
        let of = |token: Option<&str>| earliest(token, Some(pem.as_bytes()), Some(authorities.as_bytes()));
        let authority = Expiry {
            at: at("2029-03-04T00:00:00Z"),
            part: Part::Authority,
        };
        assert_eq!(of(None), Some(authority));
        // {"exp":1800000000}
        let token = jwt("eyJleHAiOjE4MDAwMDAwMDB9");
        let part = Part::Token;
        assert_eq!(
            of(Some(&token)),
            Some(Expiry {
                at: 1_800_000_000,
                part
            })
        );
        for unknown in ["opaque", "a.b", "a.b.c", "a.b.c.d", &jwt("e30")] {
            assert_eq!(of(Some(unknown)), Some(authority), "{unknown}");
            assert_eq!(earliest(Some(unknown), None, None), None);
        }
    }
}
