//! The names that every classic rule has: `request`, `serviceAccountName`, `images`.
//!
//! Upstream counterpart: `pkg/engine/context/context.go` and `pkg/engine/policycontext` (Kyverno 1.19).
//!
//! Known deviation: upstream cuts the first 22 bytes off any user name to find a service account; here a user that is not a
//! service account has none.

use super::{
    types::{Text, Type},
    value::Value,
    walk::Translator,
};
use crate::{Expr, Refusal, RefusalCode};

const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";

impl Translator<'_, '_> {
    /// What the first name of a path refers to.
    pub(super) fn root(&mut self, name: &str) -> Result<Value, Refusal> {
        let scope = &self.names.scope;
        if let Some(value) = scope.value(name) {
            return Ok(value.clone());
        }
        if let Some(refusal) = scope.refused(name) {
            return Err(refusal.clone());
        }
        if let Some(subject) = scope.get(name) {
            let mut ty = match &subject.path {
                Some(_) => Type::of_kinds(scope.kinds(), scope.seen()),
                None => Type::Any,
            };
            for step in subject.path.iter().flatten() {
                ty = if step == "*" { ty.item() } else { ty.field(step).ty };
            }
            return Ok(Value::new(subject.expr.clone(), ty).with_path(subject.path.clone()));
        }
        match name {
            "request" => Ok(Value::new(Expr::primary("request"), Type::Request)),
            "serviceAccountName" => Ok(self.service_account("serviceAccountName", 3)),
            "serviceAccountNamespace" => Ok(self.service_account("serviceAccountNamespace", 2)),
            "element" | "elementIndex" => Err(unknown(name, "it has a value only inside `foreach`")),
            "target" => Err(unknown(
                name,
                "it has a value only in rules that mutate existing resources",
            )),
            "images" => Err(unknown(
                name,
                "only `images.containers.*.registry` and paths like it have a translation",
            )),
            _ => Err(unknown(name, "no context entry defines it")),
        }
    }

    fn service_account(&mut self, name: &str, part: i64) -> Value {
        let user = Expr::primary("request.userInfo.username");
        let is_account = user.call("startsWith", [Expr::string(SERVICE_ACCOUNT_PREFIX)]);
        let part = user.call("split", [Expr::string(":")]).index(&Expr::int(part));
        let expr = is_account.choose(&part, &Expr::string(""));
        let read = self.names.variables.define(name, expr);
        let plain = true;
        Value::new(
            read,
            Type::Text(Text {
                plain,
                ..Text::default()
            }),
        )
    }

    /// A field of `request`.
    pub(super) fn request_field(&mut self, name: &str) -> Result<Value, Refusal> {
        let scope = &self.names.scope;
        if let Some(value) = scope.value(&format!("request.{name}")) {
            return Ok(value.clone());
        }
        let request = Value::new(Expr::primary("request"), Type::Request);
        if let Some(subject) = scope.get(&format!("request.{name}"))
            && !matches!(name, "object" | "oldObject")
        {
            let ty = if name == "operation" { Type::name() } else { Type::Any };
            return Ok(Value::new(subject.expr.clone(), ty));
        }
        let always = |ty: Type| Ok(request.field(name).assumed().with_type(ty));
        let optional = |ty: Type| Ok(request.field(name).with_type(ty));
        match name {
            "object" => {
                let ty = Type::of_kinds(scope.kinds(), scope.seen());
                let expr = scope
                    .get("request.object")
                    .map_or_else(|| Expr::primary("object"), |found| found.expr.clone());
                Ok(Value::new(expr, ty).with_path(Some(Vec::new())))
            }
            "oldObject" => {
                let ty = Type::of_kinds(scope.kinds(), super::types::Seen::Stored);
                let expr = scope.get("request.oldObject");
                let expr = expr.map_or_else(|| Expr::primary("oldObject"), |found| found.expr.clone());
                Ok(Value::old_object(expr, ty))
            }
            "operation" => always(Type::Text(Text {
                choices: vec!["CREATE", "UPDATE", "DELETE", "CONNECT"],
                nonempty: true,
                plain: true,
                quantity: false,
            })),
            "namespace" | "name" | "subResource" => optional(Type::name()),
            "uid" => always(Type::name()),
            "dryRun" => optional(Type::Bool),
            "kind" | "resource" | "requestKind" | "requestResource" | "userInfo" => always(Type::Request),
            "options" => optional(Type::Any),
            "roles" | "clusterRoles" => Err(Refusal::new(
                RefusalCode::Roles,
                format!(
                    "`request.{name}`: CEL does not see the roles of a user; test `request.userInfo.groups` instead"
                ),
            )),
            _ => Err(unknown(
                &format!("request.{name}"),
                "an admission request has no such field",
            )),
        }
    }

    /// A field of `request.userInfo`, `request.kind` and the like.
    pub(super) fn request_part_field(value: &Value, name: &str) -> Value {
        let field = value.field(name);
        let (ty, required) = match name {
            "username" => (
                Type::Text(Text {
                    nonempty: true,
                    ..Text::default()
                }),
                true,
            ),
            "groups" => (Type::list(Type::text()), false),
            "extra" => (Type::Map(Box::new(Type::list(Type::text()))), false),
            "kind" | "version" | "resource" => (Type::name(), true),
            "group" => {
                let plain = true;
                (
                    Type::Text(Text {
                        plain,
                        ..Text::default()
                    }),
                    true,
                )
            }
            _ => (Type::text(), false),
        };
        let field = if required { field.assumed() } else { field };
        field.with_type(ty)
    }

    /// A part of the images of all containers of a list: `images.containers.*.registry`.
    pub(super) fn images(&mut self, list: &str, part: &str) -> Result<Value, Refusal> {
        let kinds = self.names.scope.kinds();
        let paths: Option<Vec<&[&str]>> = kinds.iter().map(|(_, kind)| pod_spec(kind)).collect();
        let path = match paths.as_deref() {
            Some([first, rest @ ..]) if rest.iter().all(|path| path == first) => *first,
            _ => {
                return Err(unknown(
                    "images",
                    "it is translated for Pods and their controllers, one path at a time",
                ));
            }
        };
        // Kyverno knows no images of an object that is deleted.
        let object = match self.names.scope.new_object() {
            Some(object) => object,
            None => self.request_field("object")?,
        };
        let containers = path.iter().fold(object, |value, field| value.field(field)).field(list);
        let (_, variable) = self.names.scope.enter("container");
        let container = Expr::primary(variable.clone());
        let image = Expr::function("image", [container.field("image")]);
        let made = match part {
            // Kyverno's two parsers name the registry of Docker Hub differently.
            "registry" => image
                .call("registry", [])
                .call("replace", [Expr::string("index.docker.io"), Expr::string("docker.io")]),
            "tag" => image.call("tag", []),
            "digest" => image.call("digest", []),
            "path" => image.call("repository", []),
            _ => {
                return Err(unknown(
                    &format!("images.{list}.*.{part}"),
                    "CEL's `image()` has no such part",
                ));
            }
        };
        let mut args = vec![Expr::primary(variable)];
        if matches!(part, "tag" | "digest") {
            args.push(made.relation("!=", &Expr::string("")));
        }
        args.push(made);
        let or_empty = containers.list_or_empty().call("map", args.clone());
        let expr = containers.plain().call("map", args);
        let ty = Type::list(Type::name());
        let mut value = if containers.is_always_present() {
            Value::new(expr, ty)
        } else {
            Value::if_present(expr, ty, containers.present()).with_or_empty(or_empty)
        };
        value.fails = true;
        Ok(value)
    }
}

/// Where the specification of the Pod is in an object of a kind.
fn pod_spec(kind: &str) -> Option<&'static [&'static str]> {
    Some(match kind {
        "Pod" => &["spec"],
        "DaemonSet" | "Deployment" | "ReplicaSet" | "ReplicationController" | "StatefulSet" | "Job" => {
            &["spec", "template", "spec"]
        }
        "CronJob" => &["spec", "jobTemplate", "spec", "template", "spec"],
        _ => return None,
    })
}

fn unknown(name: &str, why: &str) -> Refusal {
    Refusal::new(RefusalCode::Variable, format!("`{name}` has no value in CEL: {why}"))
}
