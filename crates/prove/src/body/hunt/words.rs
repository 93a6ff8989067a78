//! Texts that expressions read as something else: numbers, durations, times, addresses, versions, and texts with separators.
//!
//! The constants of a policy give the values whose neighbours are worth trying. No upstream counterpart.

use std::collections::{BTreeMap, BTreeSet};

use kyvtest_go_compat::text::{duration, quantity::Quantity, time::Timestamp};

/// The maps whose keys expressions name as fields.
const MAPS: [&str; 7] = [
    "labels",
    "annotations",
    "data",
    "matchLabels",
    "limits",
    "requests",
    "nodeSelector",
];

/// The keys that expressions name behind those of [`MAPS`].
pub(super) fn keys(text: &str, into: &mut BTreeSet<String>) {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    for map in MAPS {
        for (at, _) in text.match_indices(map) {
            let rest = &text[at + map.len()..];
            let rest = rest
                .strip_prefix('.')
                .map(|rest| rest.strip_prefix('?').unwrap_or(rest));
            let key: String = rest.unwrap_or_default().chars().take_while(|c| is_word(*c)).collect();
            let is_call = rest.is_some_and(|rest| rest[key.len()..].starts_with('('));
            if !key.is_empty() && !is_call {
                into.insert(key);
            }
        }
    }
}

/// The neighbours of constants in what the expressions of the policies read them as.
pub(super) fn neighbours(
    sources: &str,
    (texts, numbers): (&BTreeSet<String>, &BTreeSet<i64>),
    now: Option<Timestamp>,
) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let reads = |names: &[&str]| names.iter().any(|name| sources.contains(name));
    if reads(&["int(", "double(", "uint(", "to_number("]) {
        for number in numbers {
            for near in [number.saturating_sub(1), *number, number.saturating_add(1)] {
                all.insert(near.to_string());
                all.insert(format!("{near}.5"));
            }
            all.insert(number.saturating_mul(10).to_string());
        }
    }
    if reads(&["duration(", "time_since(", "Duration"]) {
        for nanoseconds in texts.iter().filter_map(|text| duration::parse(text).ok()) {
            for near in [-1_000_000_000, -1, 0, 1, 1_000_000_000] {
                all.insert(format!("{}ns", nanoseconds.saturating_add(near)));
            }
        }
        all.extend(["0s", "90s", "61m", "25h"].map(str::to_owned));
    }
    if reads(&["timestamp(", "time_", "now("]) {
        times(texts, now, &mut all);
    }
    if reads(&["cidr(", "ip(", "IP("]) {
        addresses(texts, numbers, &mut all);
    }
    if reads(&["semver", "emver("]) {
        versions(texts, &mut all);
    }
    if reads(&["split(", "join(", "replace(", "substring(", "indexOf("]) {
        separated(texts, &mut all);
    }
    if reads(&[".add(", ".sub(", "sum("]) {
        amounts(texts, &mut all);
    }
    all
}

fn times(texts: &BTreeSet<String>, now: Option<Timestamp>, into: &mut BTreeSet<String>) {
    let constants = texts.iter().filter_map(|text| Timestamp::parse(text));
    for time in constants.chain(now) {
        for step in [-43_200, -1, 0, 1, 43_200] {
            if let Some(near) = Timestamp::from_seconds(time.instant().0 + step) {
                let utc = near.to_string();
                into.insert(utc.replace('Z', "+01:00"));
                into.insert(utc);
            }
        }
    }
}

fn addresses(texts: &BTreeSet<String>, numbers: &BTreeSet<i64>, into: &mut BTreeSet<String>) {
    into.extend(["192.0.2.1", "2001:db8::1", "0.0.0.0/0"].map(str::to_owned));
    let mut nets: Vec<String> = texts
        .iter()
        .filter_map(|text| text.split_once('/').map(|(net, _)| net.to_owned()))
        .filter(|net| net.split('.').count() == 4)
        .collect();
    nets.push("10.0.0.0".to_owned());
    for net in nets {
        let parts: Vec<u8> = net.split('.').filter_map(|part| part.parse().ok()).collect();
        let &[a, b, c, d] = parts.as_slice() else { continue };
        for (a, b, c, d) in [
            (a, b, c, d.wrapping_add(1)),
            (a, b, c.wrapping_add(1), d),
            (a, b.wrapping_add(1), c, d),
            (a.wrapping_add(1), b, c, d),
            (a.saturating_mul(10), b, c, d.wrapping_add(1)),
        ] {
            into.insert(format!("{a}.{b}.{c}.{d}"));
        }
        for number in numbers.iter().filter(|number| (0..=32).contains(*number)) {
            for length in [number - 1, *number, number + 1] {
                if (0..=32).contains(&length) {
                    into.insert(format!("{net}/{length}"));
                }
            }
        }
    }
}

fn versions(texts: &BTreeSet<String>, into: &mut BTreeSet<String>) {
    for text in texts {
        let parts: Vec<u64> = text.split('.').filter_map(|part| part.parse().ok()).collect();
        let &[major, minor, patch] = parts.as_slice() else {
            continue;
        };
        into.insert(text.clone());
        into.insert(format!("{}.0.0", major.saturating_add(1)));
        into.insert(format!("{major}.{}.{patch}", minor.saturating_add(1)));
        into.insert(format!("{major}.{}.{patch}", minor.saturating_sub(1)));
        into.insert(format!("{major}.{minor}.{}", patch.saturating_add(1)));
        into.insert(format!("{}.{minor}.{patch}", major.saturating_sub(1)));
        into.insert(format!("{text}-rc.1"));
        into.insert(format!("v{text}"));
    }
}

fn separated(texts: &BTreeSet<String>, into: &mut BTreeSet<String>) {
    let is_separator = |text: &&String| text.chars().count() == 1 && !text.contains(char::is_alphanumeric);
    for separator in texts.iter().filter(is_separator) {
        for count in 1..5 {
            into.insert(vec!["a"; count].join(separator));
        }
        into.insert(format!("a{separator}{separator}b"));
        into.insert(format!("{separator}a"));
        for text in texts.iter().filter(|text| text.len() < 20 && text.len() > 1) {
            into.insert(format!("{text}{separator}a"));
            into.insert(format!("a{separator}{text}"));
            if let Some((first, _)) = text.char_indices().nth(1) {
                into.insert(format!("{}{separator}{}", &text[..first], &text[first..]));
            }
        }
    }
}

fn amounts(texts: &BTreeSet<String>, into: &mut BTreeSet<String>) {
    let known: Vec<Quantity> = texts
        .iter()
        .filter_map(|text| Quantity::parse(text).ok())
        .take(8)
        .collect();
    for a in &known {
        for b in &known {
            into.insert(a.sub(b).canonical());
            into.insert(a.add(b).canonical());
        }
    }
}

/// The words that follow a word in the paths of a text; those that paths begin with follow the empty one.
pub(super) fn chains(text: &str) -> BTreeMap<String, Vec<String>> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut chains: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut before = String::new();
    let mut between = String::new();
    for part in text.split_inclusive(|c: char| !is_word(c)) {
        let word = part.trim_end_matches(|c: char| !is_word(c));
        if word.starts_with(|c: char| c.is_ascii_alphabetic()) {
            // Only what leads from a value to one in it is between the words of a path.
            let follows = between.contains('.') && between.chars().all(|c| ".?[]*0123456789".contains(c));
            let key = if follows { before.clone() } else { String::new() };
            chains.entry(key).or_default().insert(word.to_owned());
            word.clone_into(&mut before);
            between.clear();
        }
        between.push_str(&part[word.len()..]);
    }
    let chains = chains.into_iter();
    chains.map(|(key, words)| (key, words.into_iter().collect())).collect()
}
