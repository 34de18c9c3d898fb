//! Names of new deployments (contract: cell.md §1).

use fedgate_api::names::short_hash;
use std::collections::BTreeSet;

/// Maximum length of a plain name, so that an Instance's name, `-` and ordinal, fits 63 characters.
const LONGEST: usize = 59;
/// Number of characters of the Workload's name that the second form keeps.
const PREFIX: usize = 30;

/// `<workload>-<placement>-<lower-case city or location>` if that is a DNS-1035 label of at most 59 characters.
pub(super) fn plain(workload: &str, placement: &str, place: &str) -> Option<String> {
    let name = format!("{workload}-{placement}-{}", place.to_lowercase());
    let bytes = name.as_bytes();
    let fits = bytes.len() <= LONGEST
        && bytes[0].is_ascii_lowercase()
        && bytes
            .iter()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
        && bytes[bytes.len() - 1] != b'-';
    fits.then_some(name)
}

/// `P-H`: the prefix of the Workload's name, and a hash of UID, placement and city or location.
pub(super) fn hashed(workload: &str, uid: &str, placement: &str, place: &str) -> String {
    let prefix = prefix(workload);
    let hash = short_hash(&format!("{uid}\0{placement}\0{place}"), 10);
    format!("{prefix}-{hash}")
}

/// Prefix of the second form.
fn prefix(workload: &str) -> String {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let mut prefix: String = workload
        .chars()
        .take(PREFIX)
        .map(|c| if allowed(c) { c } else { '-' })
        .collect();
    if !prefix.starts_with(|c: char| c.is_ascii_lowercase()) {
        prefix.insert_str(0, "w-");
    }
    prefix.trim_end_matches('-').to_owned()
}

/// Prefixes of the names of a Workload's deployments, in both forms.
pub(super) fn beginnings(workload: &str) -> BTreeSet<String> {
    [format!("{workload}-"), format!("{}-", prefix(workload))].into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_name_is_a_label_with_room_for_an_ordinal() {
        assert_eq!(plain("storefront", "us", "DFW").unwrap(), "storefront-us-dfw");
        let room = LONGEST - "-us-dfw".len();
        assert!(plain(&"a".repeat(room), "us", "DFW").is_some());
        assert_eq!(plain(&"a".repeat(room + 1), "us", "DFW"), None);
        assert_eq!(plain("1shop", "us", "DFW"), None);
        assert_eq!(plain("shop.example", "us", "DFW"), None);
        assert_eq!(plain("shop", "us", "d_fw"), None);
        assert_eq!(plain("shop", "us", "dfw."), None);
    }

    #[test]
    fn a_hashed_name_keeps_what_it_can_and_tells_cities_apart() {
        let name = hashed("shop.example", "u", "us", "DFW");
        assert!(name.starts_with("shop-example-"), "{name}");
        assert_eq!(name.len(), "shop-example-".len() + 10);
        assert_ne!(name, hashed("shop.example", "u", "us", "dfw"));
        assert!(hashed("1shop", "u", "us", "DFW").starts_with("w-1shop-"));
        let cut = hashed(&format!("{}-x", "a".repeat(29)), "u", "us", "DFW");
        assert!(
            cut.starts_with(&format!("{}-", "a".repeat(29))) && cut.len() == 40,
            "{cut}"
        );
        // The hash does not depend on the Workload's name: names must not change between versions.
        assert_eq!(
            hashed("shop", "5f1c2d9e", "us", "DFW"),
            format!("shop-{}", &hashed("x", "5f1c2d9e", "us", "DFW")[2..])
        );
    }
}
