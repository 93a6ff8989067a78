//! `parseServiceAccount`: the namespace and name in a service account's user name.
//!
//! Upstream counterpart: SDK `libs/user`.

use super::{Structure, native};
use crate::{
    context::Context,
    decl::{Library, global},
    types::Type,
    val::{NO_SUCH_OVERLOAD, Val},
};

const SERVICE_ACCOUNT: &str = "user.ServiceAccount";
const PREFIX: &str = "system:serviceaccount:";

/// A service account; both parts are empty for any other user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct ServiceAccount {
    name: String,
    namespace: String,
}

impl Structure for ServiceAccount {
    const NAME: &'static str = SERVICE_ACCOUNT;

    fn field<'a>(&'a self, name: &str) -> Option<Val<'a>> {
        match name {
            "Name" => Some(Val::String(&self.name)),
            "Namespace" => Some(Val::String(&self.namespace)),
            _ => None,
        }
    }

    fn go_json(&self) -> Option<String> {
        let mut out = String::from("{");
        for (key, text) in [("name", &self.name), ("namespace", &self.namespace)] {
            if !text.is_empty() {
                if out.len() > 1 {
                    out.push(',');
                }
                kyvtest_go_compat::value::go_json::write_string(&mut out, key);
                out.push(':');
                kyvtest_go_compat::value::go_json::write_string(&mut out, text);
            }
        }
        out.push('}');
        Some(out)
    }

    fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

pub(super) fn declare(library: &mut Library) {
    library.add_structure(
        SERVICE_ACCOUNT,
        &[("Name", Type::String), ("Namespace", Type::String)],
        Some(make),
    );
    for (name, id) in [
        ("parseServiceAccount", "parse_service_account_string_non_prefixed"),
        ("user.parseServiceAccount", "parse_service_account_string_prefixed"),
    ] {
        library.add(
            name,
            [global(id, &[Type::String], Type::structure(SERVICE_ACCOUNT)).unary(parse)],
        );
    }
}

fn parse<'a>(context: &Context<'a>, args: &[Val<'a>]) -> Val<'a> {
    let [user] = args else { return NO_SUCH_OVERLOAD };
    let user = match native::string(context, *user) {
        Ok(user) => user,
        Err(error) => return error,
    };
    let account = user
        .strip_prefix(PREFIX)
        .and_then(|rest| rest.split_once(':'))
        .map(|(namespace, name)| ServiceAccount {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
        });
    context.opaque(account.unwrap_or_default())
}

/// `user.ServiceAccount{Name: …}`
fn make<'a>(context: &Context<'a>, fields: &[(&'a str, Val<'a>)]) -> Val<'a> {
    let mut account = ServiceAccount::default();
    for (field, value) in fields {
        match native::string(context, *value) {
            Ok(text) if *field == "Name" => text.clone_into(&mut account.name),
            Ok(text) => text.clone_into(&mut account.namespace),
            Err(error) => return error,
        }
    }
    context.opaque(account)
}
