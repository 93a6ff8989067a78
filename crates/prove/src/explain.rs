//! Paths for people: which answers matter, and how they read.

use super::{solver::Literal, symbolic::Path};
use kyvtest_model::kube::{Atom, Pairs, Pattern, Text};

/// Paths of a cell as bits: which questions they answer with yes, and which with no.
pub(super) struct Table<'p> {
    atoms: Vec<Atom<'p>>,
    rows: Vec<Bits>,
    words: usize,
}

/// Answers as bits; the first half are the questions answered with yes.
type Bits = Vec<u64>;

impl<'p> Table<'p> {
    /// Of the paths of a cell.
    pub(super) fn new<T>(paths: &[Path<'p, T>]) -> Self {
        let mut atoms: Vec<Atom<'p>> = paths
            .iter()
            .flat_map(|path| path.literals.iter().map(|(atom, _)| *atom))
            .collect();
        atoms.sort_unstable();
        atoms.dedup();
        let words = atoms.len().div_ceil(64);
        let mut table = Self {
            rows: Vec::with_capacity(paths.len()),
            atoms,
            words,
        };
        for path in paths {
            let mut bits = vec![0; 2 * words];
            for (atom, holds) in &path.literals {
                if let Ok(at) = table.atoms.binary_search(atom) {
                    table.flip(&mut bits, at, *holds);
                }
            }
            table.rows.push(bits);
        }
        table
    }

    fn flip(&self, bits: &mut Bits, at: usize, holds: bool) {
        let word = at / 64 + if holds { 0 } else { self.words };
        if let Some(word) = bits.get_mut(word) {
            *word ^= 1 << (at % 64);
        }
    }

    /// Whether some request may give both.
    fn compatible(&self, a: &Bits, b: &Bits) -> bool {
        let (yes, no) = a.split_at(self.words);
        let (other_yes, other_no) = b.split_at(self.words);
        let meets = |a: &[u64], b: &[u64]| a.iter().zip(b).any(|(a, b)| a & b != 0);
        !meets(yes, other_no) && !meets(no, other_yes)
    }

    /// Whether a path gives all of these answers.
    pub(super) fn covers(&self, region: &Bits, path: usize) -> bool {
        let row = self.rows.get(path);
        row.is_some_and(|row| region.iter().zip(row).all(|(region, row)| region & !row == 0))
    }

    /// The answers of a path that matter: every path that gives them, and maybe others, is none of `others`. Denials are
    /// dropped first: it is easier to say what requests have than what they do not have.
    pub(super) fn generalise(&self, path: usize, others: &[usize]) -> (Bits, Vec<Literal<'p>>) {
        let mut bits = self.rows.get(path).cloned().unwrap_or_default();
        for holds in [false, true] {
            for at in 0..self.atoms.len() {
                let word = at / 64 + if holds { 0 } else { self.words };
                if bits.get(word).is_none_or(|word| word & (1 << (at % 64)) == 0) {
                    continue;
                }
                self.flip(&mut bits, at, holds);
                let mut rows = others.iter().filter_map(|other| self.rows.get(*other));
                if rows.any(|row| self.compatible(&bits, row)) {
                    self.flip(&mut bits, at, holds);
                }
            }
        }
        let has = |at: usize, holds: bool| {
            let word = at / 64 + if holds { 0 } else { self.words };
            bits.get(word).is_some_and(|word| word & (1 << (at % 64)) != 0)
        };
        let mut literals = Vec::new();
        for (at, atom) in self.atoms.iter().enumerate() {
            let answers = [true, false].into_iter().filter(|holds| has(at, *holds));
            literals.extend(answers.map(|holds| (*atom, holds)));
        }
        (bits, literals)
    }
}

fn pattern(pattern: Pattern<'_>, holds: bool) -> String {
    let not = if holds { "" } else { "not " };
    match pattern {
        Pattern::Exact("") => format!("is {not}empty"),
        Pattern::Exact(text) => format!("is {not}`{text}`"),
        Pattern::Glob(text) => format!("is {not}like `{text}`"),
        Pattern::Prefix(text) => format!("does {not}start with `{text}`").replace("does start", "starts"),
    }
}

fn pairs(pairs: Pairs) -> &'static str {
    match pairs {
        Pairs::NewLabels => "label",
        Pairs::OldLabels => "old label",
        Pairs::NamespaceLabels => "namespace label",
        Pairs::NewAnnotations => "annotation",
        Pairs::OldAnnotations => "old annotation",
    }
}

fn literal((atom, holds): &Literal<'_>) -> String {
    let is = if *holds { "is" } else { "is not" };
    match atom {
        Atom::Text(text, wanted) => {
            let text = match text {
                Text::Name | Text::BareName | Text::RequestName => "name",
                Text::GenerateName => "generateName",
                Text::Namespace => "namespace",
                Text::Username => "user",
            };
            format!("{text} {}", pattern(*wanted, *holds))
        }
        Atom::Has(map, key) => {
            let there = if *holds { "present" } else { "absent" };
            format!("{} {key} is {there}", pairs(*map))
        }
        Atom::Value(map, key, wanted) => format!("{} {key} {}", pairs(*map), pattern(*wanted, *holds)),
        Atom::AnyPair(map, key, value) => {
            let some = if *holds { "some" } else { "no" };
            format!(
                "{some} {} {} {}",
                pairs(*map),
                pattern(*key, true),
                pattern(*value, true)
            )
        }
        Atom::AnyGroup(wanted) => {
            let some = if *holds { "a group" } else { "no group" };
            format!("{some} of the user {}", pattern(*wanted, true))
        }
        Atom::GroupsAre(groups) => format!(
            "the user's groups {}exactly [{}]",
            if *holds { "are " } else { "are not " },
            groups.join(", ")
        ),
        Atom::Role(role) => format!("`{role}` {is} a role of the user"),
        Atom::ClusterRole(role) => format!("`{role}` {is} a cluster role of the user"),
    }
}

/// Answers as one text; empty for none.
pub(super) fn literals(literals: &[Literal<'_>]) -> String {
    let texts: Vec<String> = literals.iter().map(literal).collect();
    texts.join(", ")
}
