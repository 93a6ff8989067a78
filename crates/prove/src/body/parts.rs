//! A difference between two sides of many checks, decided check by check.
//!
//! One side denies if any of its checks fails, the other admits if none of its own does. For each check of the first it is
//! enough that it cannot fail while *some* checks of the second all hold; mostly one does, and the question about two checks is
//! small where that about all of them is not. No upstream counterpart.

use std::{collections::VecDeque, hash::Hasher as _};

use rustc_hash::{FxHashMap, FxHasher};

use super::{
    formula::{Arena, Atom, Formula, Node, Place, Step},
    solve::{Cut, SolveResult, Solver, Theory},
};

/// How many checks a side may have.
const CHECKS: usize = 600;

/// From how many checks on each side their number is a reason to begin with parts.
const MANY: usize = 4;

/// How many checks of the second side are tried together where one is too few, and all are too many.
const TOGETHER: [usize; 2] = [4, 16];

/// What part of the cases a question about some checks has.
const FEW: u64 = 8;

/// What part of the cases a question about all checks has.
const ALL: u64 = 4;

/// The names that a formula reads, each as one of the bits.
type Names = u128;

/// Looks for a model of `base && fails && passes`: all together, or check by check where there are many checks, or where all
/// together are more than the budget has.
pub(super) fn solve(
    arena: &mut Arena,
    theory: &mut Theory,
    [base, fails, passes]: [Formula; 3],
    budget: &mut u64,
) -> SolveResult {
    let cases = *budget;
    let other = arena.not(passes);
    if has_many(arena, fails)
        && has_many(arena, other)
        && let Some(parts) = Parts::of(arena, base, fails, passes)
    {
        return parts.solve(arena, theory, cases);
    }
    let goal = arena.and([base, fails, passes]);
    match Solver::new(arena, theory, budget).solve(goal) {
        SolveResult::Incomplete(Cut::Budget) => match Parts::of(arena, base, fails, passes) {
            Some(parts) => parts.solve(arena, theory, cases),
            None => SolveResult::Incomplete(Cut::Budget),
        },
        answer => answer,
    }
}

/// A question: may all of `base` hold, and any of the checks of one side fail while none of the other's does?
struct Parts {
    base: Formula,
    /// Each holds where a check of the first side fails, with the names that it reads.
    failures: Vec<(Formula, Names)>,
    /// Each holds where a check of the second side does not fail.
    passes: Vec<(Formula, Names)>,
}

impl Parts {
    /// Divides `base && fails && passes`; `None` if either side has a single check.
    fn of(arena: &mut Arena, base: Formula, fails: Formula, passes: Formula) -> Option<Self> {
        let failures = alternatives(arena, fails);
        let other = arena.not(passes);
        let passes: Vec<Formula> = alternatives(arena, other)
            .into_iter()
            .map(|failure| arena.not(failure))
            .collect();
        if failures.len() < 2 || passes.len() < 2 {
            return None;
        }
        let mut known = FxHashMap::default();
        let mut named = |formulas: Vec<Formula>| -> Vec<(Formula, Names)> {
            let all = formulas.into_iter().map(|formula| {
                let names = read(arena, formula, &mut known);
                (formula, names)
            });
            all.collect()
        };
        let (failures, passes) = (named(failures), named(passes));
        Some(Self { base, failures, passes })
    }

    /// Decides each part under a budget of its own.
    fn solve(&self, arena: &mut Arena, theory: &mut Theory, cases: u64) -> SolveResult {
        for (failure, names) in &self.failures {
            let pass = arena.not(*failure);
            if self.passes.iter().any(|(own, _)| *own == pass) {
                continue;
            }
            let mut likely: Vec<&(Formula, Names)> = self.passes.iter().collect();
            likely.sort_by_key(|(_, own)| std::cmp::Reverse(likeness(*names, *own)));
            match self.one(arena, theory, cases, *failure, &likely) {
                SolveResult::No => {}
                other => return other,
            }
        }
        SolveResult::No
    }

    fn one(
        &self,
        arena: &mut Arena,
        theory: &mut Theory,
        cases: u64,
        failure: Formula,
        likely: &[&(Formula, Names)],
    ) -> SolveResult {
        let mut try_with = |arena: &mut Arena, count: usize, cases: u64| {
            let chosen = likely[..count].iter().map(|(pass, _)| *pass);
            let goal = arena.and([self.base, failure].into_iter().chain(chosen));
            let mut budget = cases;
            Solver::new(arena, theory, &mut budget).solve(goal)
        };
        if matches!(try_with(arena, 1, cases / FEW), SolveResult::No) {
            return SolveResult::No;
        }
        let all = try_with(arena, likely.len(), cases / ALL);
        if !matches!(all, SolveResult::Incomplete(_)) {
            return all;
        }
        let further = TOGETHER.into_iter().filter(|count| *count < likely.len());
        for count in further {
            if matches!(try_with(arena, count, cases / FEW), SolveResult::No) {
                return SolveResult::No;
            }
        }
        all
    }
}

/// Whether a side has many checks, from the condition that one fails.
fn has_many(arena: &Arena, fails: Formula) -> bool {
    match arena.look(fails) {
        Node::Or(ways) => ways.len() >= MANY,
        Node::And(parts) => parts
            .iter()
            .any(|part| matches!(arena.look(*part), Node::Or(ways) if ways.len() >= MANY)),
        _ => false,
    }
}

/// How much two sets of names have in common, in thousandths.
fn likeness(a: Names, b: Names) -> u32 {
    (a & b).count_ones() * 1_000 / (a | b).count_ones().max(1)
}

fn name(text: &str) -> Names {
    let mut hasher = FxHasher::default();
    hasher.write(text.as_bytes());
    1 << (hasher.finish() >> 57)
}

/// Formulas of which one holds where the given one does: `m && (a || b)` is `m && a` or `m && b`. What would make too many
/// stays whole.
fn alternatives(arena: &mut Arena, formula: Formula) -> Vec<Formula> {
    let mut done = Vec::new();
    let mut open = VecDeque::from([(formula, true)]);
    while let Some((formula, distributes)) = open.pop_front() {
        let (ways, further) = match arena.look(formula).clone() {
            Node::Or(parts) => (parts.to_vec(), distributes),
            // Once is enough: the disjunctions that are left belong to one check.
            Node::And(parts) if distributes => (distributed(arena, &parts), false),
            _ => (Vec::new(), false),
        };
        if ways.is_empty() || done.len() + open.len() + ways.len() > CHECKS {
            done.push(formula);
        } else {
            open.extend(ways.into_iter().map(|way| (way, further)));
        }
    }
    done
}

/// A conjunction with its widest disjunction taken apart; nothing if none is wide.
fn distributed(arena: &mut Arena, parts: &[Formula]) -> Vec<Formula> {
    let width = |part: &Formula| match arena.look(*part) {
        Node::Or(ways) => ways.len(),
        _ => 0,
    };
    let widest = parts
        .iter()
        .copied()
        .max_by_key(width)
        .filter(|part| width(part) >= MANY);
    let Some((widest, Node::Or(ways))) = widest.map(|part| (part, arena.look(part).clone())) else {
        return Vec::new();
    };
    let rest: Vec<Formula> = parts.iter().copied().filter(|part| *part != widest).collect();
    let ways = ways.iter().map(|way| arena.and(rest.iter().copied().chain([*way])));
    ways.collect()
}

/// The names of the fields that a formula reads, and the constants that texts are compared with.
fn read(arena: &Arena, formula: Formula, known: &mut FxHashMap<Formula, Names>) -> Names {
    if let Some(names) = known.get(&formula) {
        return *names;
    }
    let names = match arena.look(formula) {
        Node::True | Node::False => 0,
        Node::And(parts) | Node::Or(parts) => parts.iter().fold(0, |names, part| names | read(arena, *part, known)),
        Node::Literal(atom, _) => {
            let atom = arena.atom(*atom);
            let places = atom.places().fold(0, |names, place| names | fields(arena, place));
            places
                | match atom {
                    Atom::Text(_, predicate) => name(&format!("{predicate:?}")),
                    Atom::AtLeast(_, _, body, _) => read(arena, *body, known),
                    Atom::Free(text) => name(text),
                    _ => 0,
                }
        }
    };
    known.insert(formula, names);
    names
}

fn fields(arena: &Arena, place: Place) -> Names {
    let mut names = 0;
    let mut at = Some(place);
    while let Some(place) = at {
        if let Step::Field(own) = arena.step(place) {
            names |= name(own);
        }
        at = arena.parent(place);
    }
    names
}
