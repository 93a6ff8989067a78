//! The plural that Kubernetes' clients guess for an undeclared kind (`meta.UnsafeGuessKindToResource`).

/// The guessed plural of a kind: lower case, `-s`, `-es` after `s`, `-ies` for `-y`; `endpoints` stays.
pub fn guess_plural(kind: &str) -> String {
    let mut name = kind.to_lowercase();
    if name.is_empty() || name.ends_with("endpoints") {
        return name;
    }
    if name.ends_with('s') {
        name.push_str("es");
    } else if name.ends_with('y') {
        name.pop();
        name.push_str("ies");
    } else {
        name.push('s');
    }
    name
}

#[cfg(test)]
mod tests {
    use super::guess_plural;

    #[test]
    fn plurals_are_naive() {
        let guesses = [
            "Pod",
            "Ingress",
            "NetworkPolicy",
            "Endpoints",
            "Gateway",
            "Häuschen",
            "",
        ]
        .map(guess_plural);
        assert_eq!(
            guesses,
            [
                "pods",
                "ingresses",
                "networkpolicies",
                "endpoints",
                "gatewaies",
                "häuschens",
                ""
            ]
        );
    }
}
