//! `json.Unmarshal(text)`.
//!
//! Upstream counterpart: kyverno-authz `pkg/cel/libs/json`. It has this one function, in this spelling.

use crate::{
    decl::{Library, member},
    library::kyverno::{Receiver, declare_receiver, unmarshal},
    types::Type,
};

static JSON: Receiver = Receiver("json.Json");

pub(super) fn declare(library: &mut Library) {
    declare_receiver(library, "json", &JSON);
    library.add(
        "Unmarshal",
        [member("unmarshal_string_dyn", &[Type::opaque(JSON.0), Type::Dyn], Type::Dyn).binary(unmarshal)],
    );
}
