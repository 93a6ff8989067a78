//! Matching beyond the golden rows: messages about bad blocks, every path of a rule under scripted facts, and
//! properties.

use std::{fmt::Write as _, fs, path::Path, sync::Arc};

use kyvtest::{
    diagnostic::{Sources, render},
    kube::{
        Atom, Concrete, Discovery, Facts, GroupVersionKind, Namespace, Operation, Pattern, Request, RequestClass,
        Roles, UserInfo, World,
    },
    kyverno::{
        constraints,
        matching::{Selection, applies, exempts, explain},
    },
    policy::{MatchConstraints, MatchResources},
    value::Document,
    yaml,
};
use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::{Map, Value, json};

fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/policy").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
}

fn block(value: &Value) -> MatchResources {
    let (block, diagnostics) = MatchResources::from_value(Document::from(value).root());
    block.unwrap_or_else(|| panic!("not read: {diagnostics:?}"))
}

#[test]
fn bad_blocks_get_a_diagnostic_at_the_place() {
    let text = fixture("match-blocks.yaml");
    let mut sources = Sources::new();
    let file = sources.add("match-blocks.yaml", text.as_str());
    let mut shown = String::new();
    for document in yaml::read(&text, yaml::Mode::Lax, &yaml::Limits::default()).into_documents() {
        let tree = Arc::new(document.into_tree().expect("YAML"));
        let (block, diagnostics) = MatchResources::from_node(&tree, tree.root(), file);
        writeln!(shown, "{}", if block.is_some() { "read" } else { "refused" }).expect("a string");
        for diagnostic in diagnostics {
            writeln!(shown, "  {}", render::concise(&diagnostic, &sources).trim_end()).expect("a string");
        }
    }
    insta::assert_snapshot!("match-blocks", shown);
}

#[test]
fn blocks_are_written_as_they_are_read() {
    let rows = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/classic/match.jsonl");
    for row in fs::read_to_string(rows).expect("rows").lines() {
        let row: Value = serde_json::from_str(row).expect("JSON");
        let once = block(&row["rule"]["match"]).to_document();
        let (again, _) = MatchResources::from_value(once.root());
        assert_eq!(again.expect("a block").to_document(), once, "{}", row["id"]);
    }
    let written = json!({
        "any": [{
            "resources": {
                "kinds": ["Pod", "v1/Secret"], "names": ["a*"], "annotations": {"b": "c"},
                "selector": {"matchLabels": {"d": "e"}, "matchExpressions": [{"key": "f", "operator": "Odd"}]},
                "operations": ["CREATE"],
            },
            "subjects": [{"kind": "ServiceAccount", "name": "g", "namespace": "h"}],
        }],
        "roles": ["i:j"], "resources": {},
    });
    assert_eq!(block(&written).to_document(), Document::from(&written));
}

/// Facts decided by a script of answers; true beyond the script. The same question gets the same answer.
#[derive(Default)]
struct Scripted<'p> {
    questions: Vec<(Atom<'p>, bool)>,
    script: Vec<bool>,
}

impl<'p> Facts<'p> for Scripted<'p> {
    fn ask(&mut self, atom: Atom<'p>) -> bool {
        if let Some((_, answer)) = self.questions.iter().find(|(other, _)| *other == atom) {
            return *answer;
        }
        let answer = self.script.get(self.questions.len()).copied().unwrap_or(true);
        self.questions.push((atom, answer));
        answer
    }
}

/// Enumerates every path of code that asks questions: runs it again with the last open answer inverted.
fn paths<'p, T>(mut run: impl FnMut(&mut Scripted<'p>) -> T) -> Vec<(Vec<(Atom<'p>, bool)>, T)> {
    let mut all = Vec::new();
    let mut script = Vec::new();
    loop {
        let mut facts = Scripted {
            questions: Vec::new(),
            script: script.clone(),
        };
        let outcome = run(&mut facts);
        script = facts.questions.iter().map(|(_, answer)| *answer).collect();
        all.push((facts.questions, outcome));
        while script.pop_if(|answer| !*answer).is_some() {}
        match script.last_mut() {
            Some(last) => *last = false,
            None => return all,
        }
    }
}

#[test]
fn every_path_of_a_rule() {
    let rule = Document::from_yaml(&fixture("match-paths.yaml"))
        .expect("YAML")
        .root()
        .to_json();
    let rule: Value = serde_json::from_str(&rule).expect("JSON");
    let (matches, exclude) = (block(&rule["match"]), block(&rule["exclude"]));
    let selection = Selection {
        matches: &matches,
        exclude: Some(&exclude),
        policy_namespace: "",
    };
    let discovery = Discovery::kubernetes();
    let pods = discovery.by_object("v1", "Pod").expect("pods");
    let cell = RequestClass::new(pods, Operation::Create, false);
    let short = paths(|facts| applies(selection, &cell, facts));
    let long = paths(|facts| explain(selection, &cell, facts).is_ok());
    let applying = |paths: &[(Vec<(Atom<'_>, bool)>, bool)]| paths.iter().filter(|(_, applies)| *applies).count();
    let mut shown = format!("{} paths, {} apply\n", short.len(), applying(&short));
    writeln!(shown, "explained: {} paths, {} apply", long.len(), applying(&long)).expect("a string");
    for (atom, answer) in &short[0].0 {
        writeln!(shown, "{answer}: {atom:?}").expect("a string");
    }
    insta::assert_snapshot!("match-paths", shown);
    // A rule on other kinds asks nothing: kinds are enumerated.
    let secrets = discovery.by_object("v1", "Secret").expect("secrets");
    let other = paths(|facts| applies(selection, &RequestClass::new(secrets, Operation::Create, false), facts));
    assert_eq!(other, [(Vec::new(), false)]);
}

#[test]
fn a_selector_bomb_stays_linear() {
    /// Counts questions.
    struct Count(usize, bool);
    impl<'p> Facts<'p> for Count {
        fn ask(&mut self, _: Atom<'p>) -> bool {
            self.0 += 1;
            self.1
        }
    }
    let discovery = Discovery::kubernetes();
    let cell = RequestClass::new(
        discovery.by_object("v1", "Pod").expect("pods"),
        Operation::Create,
        false,
    );
    for answer in [true, false] {
        let counts = [1000, 2000].map(|n| {
            let labels: Map<String, Value> = (0..n).map(|i| (format!("k{i}*"), json!("*"))).collect();
            let expressions: Vec<Value> = (0..n)
                .map(|i| json!({"key": format!("e{i}"), "operator": "In", "values": ["a", "b"]}))
                .collect();
            let selector = json!({"matchLabels": labels, "matchExpressions": expressions});
            let matches = block(&json!({"any": [{"resources": {"selector": selector}}]}));
            let selection = Selection {
                matches: &matches,
                exclude: Some(&matches),
                policy_namespace: "",
            };
            let mut count = Count(0, answer);
            applies(selection, &cell, &mut count);
            count.0
        });
        assert!(counts[1] <= 2 * counts[0], "{counts:?}");
    }
    // A backtracking matcher never ends on this pattern.
    let pattern = format!("{}b", "*a".repeat(40));
    let matches = block(&json!({"any": [{"resources": {
        "selector": {"matchLabels": {pattern.clone(): pattern.clone()}}, "annotations": {pattern.clone(): pattern},
    }}]}));
    let many: Map<String, Value> = (0..500)
        .map(|i| (format!("{}{i}", "a".repeat(60)), json!("a".repeat(60))))
        .collect();
    let object = json!({"metadata": {"name": "x", "labels": many.clone(), "annotations": many}});
    let pods = Arc::clone(discovery.by_object("v1", "Pod").expect("pods"));
    let request = Request::about(Operation::Create, pods, Document::from(&object));
    let selection = Selection {
        matches: &matches,
        exclude: None,
        policy_namespace: "",
    };
    assert!(explain(selection, &request.cell(), &mut Concrete::new(&request, None)).is_err());
}

#[test]
fn patterns_that_look_like_globs_are_literal_where_they_are_exact() {
    assert!(Pattern::glob("a*").matches("abc") && !Pattern::Exact("a*").matches("abc"));
    assert!(Pattern::Exact("a*").matches("a*") && Pattern::Prefix("a*").matches("a*b"));
}

#[test]
fn a_world_knows_its_namespaces_and_roles() {
    let mut world = World::new();
    let objects = [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "prod", "labels": {"env": "prod"}}}),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "b"},
            "roleRef": {"kind": "ClusterRole", "name": "view"}, "subjects": [{"kind": "User", "name": "ann"}],
        }),
    ];
    for object in &objects {
        world.add(Document::from(object));
    }
    world.add_namespace(Namespace::minimal("dev"));
    let names: Vec<&str> = world.namespaces().map(Namespace::name).collect();
    assert_eq!(names, ["dev", "prod"]);
    assert_eq!(world.objects.len(), 2);
    let user = UserInfo::from_value(Document::from(&json!({"username": "ann"})).root());
    let wanted = Roles {
        cluster_roles: Some(vec!["view".to_owned()]),
        ..Roles::default()
    };
    assert_eq!(world.roles(&user, "prod"), wanted);
}

/// Any JSON value, preferring the keywords of match blocks and objects.
fn values() -> impl Strategy<Value = Value> {
    let words = select(vec![
        "any",
        "all",
        "resources",
        "kinds",
        "name",
        "names",
        "namespaces",
        "annotations",
        "selector",
        "namespaceSelector",
        "operations",
        "subjects",
        "roles",
        "clusterRoles",
        "kind",
        "namespace",
        "matchLabels",
        "matchExpressions",
        "key",
        "operator",
        "values",
        "In",
        "Exists",
        "metadata",
        "labels",
        "generateName",
        "Pod",
        "*",
        "?*",
        "a*b",
        "CREATE",
        "User",
        "resourceRules",
        "excludeResourceRules",
        "objectSelector",
        "apiGroups",
        "apiVersions",
        "resourceNames",
        "scope",
        "*/*",
        "",
        "ü",
    ])
    .prop_map(str::to_owned);
    let leaf = prop_oneof![
        6 => words.clone().prop_map(Value::String),
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::Bool),
        1 => any::<i32>().prop_map(|n| json!(n)),
        1 => "\\PC{0,8}".prop_map(Value::String),
    ];
    leaf.prop_recursive(6, 48, 6, move |inner| {
        prop_oneof![
            1 => vec(inner.clone(), 0..4).prop_map(Value::Array),
            2 => vec((words.clone(), inner), 0..6).prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn any_block_on_any_object(
        first in values(), second in values(), object in values(), old in values(), user in values(), namespace in "[a*]{0,2}",
        operation in select(Operation::ALL.to_vec()),
    ) {
        let kind = GroupVersionKind::new("", "v1", "Pod");
        let resource = Discovery::guess(&kind, !namespace.is_empty());
        let mut request = Request::about(operation, Arc::new(resource), Document::from(&object));
        request.old_object = Document::from(&old);
        request.user = UserInfo::from_value(Document::from(&user).root());
        let of_namespace = Namespace { object: Document::from(&old) };
        let mut facts = Concrete::new(&request, Some(&of_namespace));
        let cell = request.cell();
        let read = |value: &Value| MatchResources::from_value(Document::from(value).root()).0;
        let (matches, exclude) = (read(&first), read(&second));
        if let Some(matches) = &matches {
            let selection = Selection { matches, exclude: exclude.as_ref(), policy_namespace: &namespace };
            let explained = explain(selection, &cell, &mut facts);
            prop_assert_eq!(applies(selection, &cell, &mut facts), explained.is_ok());
            if let Err(mismatch) = explained {
                prop_assert!(!mismatch.text("r").is_empty());
            }
            exempts(matches, &cell, &mut facts);
        }
        if let Some(constraints) = MatchConstraints::from_value(Document::from(&first).root()).0 {
            let _ = constraints::applies(&constraints, &cell, &mut facts);
        }
        let _ = Discovery::empty().add_crd(Document::from(&object).root());
        World::new().add(Document::from(&old));
    }
}
