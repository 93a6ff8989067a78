//! What a comparison learns from an API server that refuses the objects of a model: why the difference does not count, and which
//! fields further models must not have. No upstream counterpart.

use kyvtest_normalise::Reason;

use super::{
    formula::{Arena, Atom, Formula},
    solve::Model,
};
use crate::server::Refused;

/// Why a difference is not one that a cluster shows.
pub(super) fn not_accepted(refusal: Option<&Refused>) -> String {
    let cause = refusal.map(|refused| match refused.errors.first() {
        Some(cause) => cause.to_string(),
        None => refused.message.clone(),
    });
    match cause {
        Some(cause) => format!("a difference was found only on objects that an API server refuses ({cause})"),
        None => "a difference was found only on objects that an API server changes".to_owned(),
    }
}

/// What further models must not have: the fields of a model that the server forbids.
pub(super) fn forbidden(arena: &mut Arena, model: &Model, refusal: Option<&Refused>) -> Vec<Formula> {
    let causes = refusal.into_iter().flat_map(|refusal| &refusal.errors);
    let paths: Vec<String> = causes
        .filter(|cause| cause.reason == Reason::Forbidden)
        .map(|cause| without_indexes(&cause.field))
        .collect();
    let mut all = Vec::new();
    for atom in &model.order {
        if let Atom::Present(place) = *arena.atom(*atom)
            && model.values[atom]
        {
            let path = arena.generic(place);
            let below_root = path.split_once('.').map_or("", |(_, path)| path);
            if paths.iter().any(|forbidden| forbidden == below_root) {
                let present = arena.signed(*atom, true);
                all.push(arena.not(present));
            }
        }
    }
    all
}

/// A path such as `spec.containers[].image`.
fn without_indexes(path: &str) -> String {
    let mut inside = false;
    let kept = path.chars().filter(|character| {
        let keep = !inside || *character == ']';
        inside = *character == '[' || inside && *character != ']';
        keep
    });
    kept.collect()
}
