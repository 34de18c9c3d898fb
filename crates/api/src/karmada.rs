//! Names that Karmada gives to the Works on its hub.

/// Name of the Work of an object. Its group is not in it, so that two kinds of one name share it.
pub fn work(kind: &str, namespace: &str, name: &str) -> String {
    let name = name.replace(':', ".").to_lowercase();
    let whole = if namespace.is_empty() {
        format!("{name}-{kind}")
    } else {
        format!("{namespace}-{name}-{kind}")
    };
    format!("{name}-{}", safe_hash(&whole.to_lowercase()))
}

/// Namespace of a member's Works.
pub fn work_namespace(member: &str) -> String {
    format!("{WORKS}{member}")
}

/// The member whose Works are in this namespace.
pub fn member_of(namespace: &str) -> Option<&str> {
    namespace.strip_prefix(WORKS)
}

const WORKS: &str = "karmada-es-";

/// FNV-1a of a text as a decimal number, in an alphabet that forms no words.
pub fn safe_hash(text: &str) -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let hash = text.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    hash.to_string()
        .bytes()
        .map(|byte| char::from(ALPHABET[usize::from(byte) % ALPHABET.len()]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_work_is_named_as_karmada_names_it() {
        assert_eq!(work("Cluster", "ns-kg", "g4"), "g4-5bdc564cbb");
        assert_eq!(
            work("ClusterRole", "", "karmada-impersonator"),
            "karmada-impersonator-7cbb6bd5c9"
        );
        assert_eq!(member_of(&work_namespace("dfw-1")), Some("dfw-1"));
    }
}
