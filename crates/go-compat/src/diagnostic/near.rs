//! Suggestions for mistyped names: the known names nearest to an unknown one.

/// Longer names are not compared: they are hardly typing errors, and the comparison is quadratic in the length.
const LONGEST: usize = 64;

/// The maximum number of suggestions.
const SHOWN: usize = 3;

/// Returns the candidates nearest to `name`, best first, at most three; empty if none is near.
///
/// A candidate is near if at most a third of the characters differ (at least one may), ignoring case.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let name: Vec<char> = name.chars().take(LONGEST + 1).flat_map(char::to_lowercase).collect();
    if name.is_empty() || name.len() > LONGEST {
        return Vec::new();
    }
    let limit = (name.len() / 3).max(1);
    let mut near: Vec<(usize, &str)> = candidates
        .into_iter()
        .filter_map(|candidate| {
            let other: Vec<char> = candidate
                .chars()
                .take(LONGEST + 1)
                .flat_map(char::to_lowercase)
                .collect();
            let distance = (other.len() <= LONGEST).then(|| distance(&name, &other))?;
            (distance <= limit).then_some((distance, candidate))
        })
        .collect();
    near.sort_by_key(|(distance, _)| *distance);
    near.truncate(SHOWN);
    near.into_iter().map(|(_, candidate)| candidate).collect()
}

/// Edit distance: insertions, deletions, replacements, and swaps of neighbours.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let mut best = (last[j] + usize::from(x != y)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_come_first() {
        let codes = ["KT001", "KT002", "KT021", "KT101", "KT104"];
        assert_eq!(nearest("KT01", codes), ["KT001", "KT021", "KT101"]);
        assert_eq!(nearest("kt104", codes), ["KT104", "KT101"]);
        assert_eq!(nearest("TK021", codes), ["KT021"]);
        assert_eq!(nearest("K8s-1.36", ["k8s-1.36", "kyverno-1.19"]), ["k8s-1.36"]);
    }

    #[test]
    fn nothing_near_is_nothing() {
        assert_eq!(nearest("", ["KT001"]), Vec::<&str>::new());
        assert_eq!(nearest("banana", ["KT001"]), Vec::<&str>::new());
        assert_eq!(nearest(&"x".repeat(1_000_000), ["KT001"]), Vec::<&str>::new());
    }
}
