//! Words for the elements of lists, as names of loop variables.
//!
//! No upstream counterpart.

/// Names that CEL, Kubernetes or Kyverno give a meaning.
const TAKEN: [&str; 13] = [
    "object",
    "request",
    "variable",
    "image",
    "resource",
    "namespace",
    "exception",
    "param",
    "package",
    "const",
    "loop",
    "import",
    "type",
];

/// Lists whose names are no plurals, and words for their elements.
const IRREGULAR: [(&str, &str); 14] = [
    ("initContainers", "container"),
    ("ephemeralContainers", "container"),
    ("add", "capability"),
    ("drop", "capability"),
    ("env", "envVar"),
    ("envFrom", "source"),
    ("command", "word"),
    ("ingress", "rule"),
    ("egress", "rule"),
    ("from", "peer"),
    ("to", "peer"),
    ("tls", "entry"),
    ("images", "imageEntry"),
    ("status", ITEM),
];

/// What an element is called if its list has no telling name.
pub(crate) const ITEM: &str = "item";

/// A word for an element: `containers` have a `container`, `capabilities.add` a `capability`.
pub(crate) fn singular(list: &str) -> String {
    if let Some((_, word)) = IRREGULAR.iter().find(|(irregular, _)| *irregular == list) {
        return (*word).to_owned();
    }
    let short: String = list.chars().filter(char::is_ascii_alphanumeric).collect();
    let word = if let Some(stem) = short.strip_suffix("ies") {
        format!("{stem}y")
    } else if let Some(stem) = short.strip_suffix("sses") {
        format!("{stem}ss")
    } else {
        let stem = short
            .strip_suffix('s')
            .filter(|stem| stem.len() > 1 && !stem.ends_with('s'));
        stem.unwrap_or_default().to_owned()
    };
    usable(word)
}

/// A word for the elements of several lists that each hold one such field: the host ports of several are each a `hostPort`.
pub(crate) fn field(name: &str) -> String {
    usable(name.chars().filter(char::is_ascii_alphanumeric).collect())
}

/// A word for several: `capability` becomes `capabilities`.
pub(crate) fn plural(word: &str) -> String {
    if let Some(stem) = word
        .strip_suffix('y')
        .filter(|stem| !stem.ends_with(['a', 'e', 'o', 'u']))
    {
        return format!("{stem}ies");
    }
    let hisses = ["s", "x", "ch", "sh"].iter().any(|end| word.ends_with(end));
    format!("{word}{}", if hisses { "es" } else { "s" })
}

fn usable(word: String) -> String {
    let usable = word.starts_with(|c: char| c.is_ascii_lowercase()) && !TAKEN.contains(&word.as_str());
    if usable { word } else { ITEM.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::{plural, singular};

    #[test]
    fn elements_are_named_after_their_lists() {
        let words = [
            ("containers", "container"),
            ("add", "capability"),
            ("policies", "policy"),
            ("ingresses", "ingress"),
            ("status", "item"),
            ("namespaces", "item"),
        ];
        for (list, word) in words {
            assert_eq!(singular(list), word);
        }
        assert_eq!(plural("capability"), "capabilities");
        assert_eq!(plural("apiVersion"), "apiVersions");
    }
}
