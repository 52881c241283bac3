//! The caller's permission with `--authorization-mode=AlwaysAllow`: found out once, and only where a plugin may have side effects.

use super::*;
use crate::admission::Phase;
use crate::config::ValidationView;
use crate::sharer::Sharing;

/// The name of the object, the phase and `is_authorized` of each call of an [`Actor`].
static ACTED: Mutex<Vec<(String, Phase, bool)>> = Mutex::new(Vec::new());

/// A plugin with side effects on objects with the label `act`. The label `look` asks for the stored form.
struct Actor;

impl Actor {
    fn act(attributes: &Attributes, phase: Phase) {
        let name = attributes.name.clone();
        ACTED.lock().unwrap().push((name, phase, attributes.context.is_authorized));
    }
}

#[async_trait]
impl Plugin for Actor {
    fn has_side_effects(&self, attributes: &Attributes) -> bool {
        let object = attributes.object.as_ref().or(attributes.old_object.as_deref());
        object.is_some_and(|object| object.str(&["metadata", "labels", "act"]) == "yes")
    }

    fn reads_stored_object(&self, attributes: &Attributes) -> bool {
        attributes.object.as_ref().is_some_and(|object| object.str(&["metadata", "labels", "look"]) == "stored")
    }

    async fn admit(&self, attributes: &mut Attributes) -> Result<(), Denial> {
        Self::act(attributes, Phase::Admit);
        Ok(())
    }

    async fn validate(&self, attributes: &Attributes) -> Result<(), Denial> {
        Self::act(attributes, Phase::Validate);
        Ok(())
    }
}

static VALIDATING: Spec =
    Spec { name: "Validating", phases: Phases::Validating, build: |_| Ok(Box::new(Actor)), ..WITNESS };
static MUTATING: Spec = Spec { name: "Mutating", phases: Phases::Mutating, build: |_| Ok(Box::new(Actor)), ..WITNESS };

/// Returns the phases that acted on the object, with `is_authorized`.
fn acted(name: &str) -> Vec<(Phase, bool)> {
    let acted = ACTED.lock().unwrap();
    acted.iter().filter(|(other, ..)| other == name).map(|(_, phase, known)| (*phase, *known)).collect()
}

/// A path in front of an API server that answers access reviews with `allowed`, and the number of these reviews.
async fn path(plugin: &'static Spec, allowed: bool) -> (Path, Arc<AtomicUsize>) {
    let server = embedded::Server::new(Arc::default());
    let (behind, reviews) = (server.clone(), Arc::new(AtomicUsize::new(0)));
    let counted = reviews.clone();
    let transport = from_fn(move |request: Request<Body>| {
        let (behind, reviews) = (behind.clone(), reviews.clone());
        async move {
            if !request.uri().path().ends_with("/selfsubjectaccessreviews") {
                return crate::upstream::Transport::send(&behind, request).await;
            }
            reviews.fetch_add(1, Ordering::SeqCst);
            let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
                "spec": {}, "status": {"allowed": allowed}});
            Ok(Response::builder().status(201).body(full(review.to_string())).unwrap())
        }
    });
    (Path::with_plugins(server, transport, &[plugin], FixedState::default()).await, counted)
}

fn labelled(name: &str, labels: Value) -> Value {
    let mut object = config_map(name);
    object["metadata"]["labels"] = labels;
    object
}

#[tokio::test]
async fn a_dry_run_shows_the_permission_for_a_create_before_the_validating_phase() {
    let (path, reviews) = path(&VALIDATING, false).await;
    let object = labelled("rehearsed", json!({"act": "yes", "look": "stored"}));
    assert_eq!(path.json("POST", CONFIG_MAPS, &object).await.0, 201);
    assert_eq!((acted("rehearsed"), reviews.load(Ordering::SeqCst)), (vec![(Phase::Validate, true)], 0));
}

#[tokio::test]
async fn the_api_server_is_asked_once_for_a_write_of_a_stored_object() {
    let (path, reviews) = path(&VALIDATING, true).await;
    let object = labelled("asked", json!({"act": "yes", "look": "stored"}));
    assert_eq!(path.json("POST", CONFIG_MAPS, &object).await.0, 201);
    let mut changed = object.clone();
    changed["data"]["a"] = json!("2");
    assert_eq!(path.json("PUT", &at("asked"), &changed).await.0, 200);
    let patch = json!({"data": {"a": "3"}}).to_string();
    assert_eq!(path.ask("PATCH", &at("asked"), "application/merge-patch+json", patch).await.0, 200);
    changed["data"]["a"] = json!("4");
    let apply = format!("{}?fieldManager=m&force=true", at("asked"));
    assert_eq!(path.ask("PATCH", &apply, "application/apply-patch+yaml", changed.to_string()).await.0, 200);
    assert_eq!(acted("asked"), [(Phase::Validate, true); 4]);
    assert_eq!(reviews.load(Ordering::SeqCst), 3);
}

/// Every request of a refused caller costs the same, so that its time does not tell whether there is an object.
#[tokio::test]
async fn who_may_not_write_an_object_causes_no_admission_of_it() {
    let server = embedded::Server::new(Arc::default());
    let (behind, sent) = (server.clone(), Arc::new(Mutex::new(Vec::new())));
    let record = sent.clone();
    let transport = from_fn(move |request: Request<Body>| {
        let (behind, sent) = (behind.clone(), record.clone());
        async move {
            sent.lock().unwrap().push(request.uri().path().rsplit('/').next().unwrap().to_owned());
            if request.uri().path().ends_with("/selfsubjectaccessreviews") {
                let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
                    "spec": {}, "status": {"allowed": false}});
                return Ok(Response::builder().status(201).body(full(review.to_string())).unwrap());
            }
            crate::upstream::Transport::send(&behind, request).await
        }
    });
    let path = Path::with_plugins(server, transport, &[&VALIDATING], FixedState::default()).await;
    let object = labelled("there", json!({"look": "stored"}));
    assert_eq!(path.json("POST", CONFIG_MAPS, &object).await.0, 201);
    let merge = "application/merge-patch+json";
    let apply = "application/apply-patch+yaml";
    for (method, content_type, query) in
        [("PUT", "application/json", ""), ("PATCH", merge, ""), ("PATCH", apply, "?fieldManager=m"), ("DELETE", "", "")]
    {
        let mut costs = Vec::new();
        for name in ["there", "gone"] {
            let body = match method {
                "DELETE" => String::new(),
                _ => labelled(name, json!({"look": "stored"})).to_string(),
            };
            sent.lock().unwrap().clear();
            let (code, status) = path.ask(method, &format!("{}{query}", at(name)), content_type, body).await;
            assert_eq!((code, &status["reason"]), (403, &json!("Forbidden")), "{method} {name}: {status}");
            let mut sent = std::mem::take(&mut *sent.lock().unwrap());
            sent.iter_mut().filter(|path| *path == name).for_each(|path| *path = "object".into());
            sent.sort();
            costs.push(sent);
        }
        let [there, gone] = &costs[..] else { unreachable!() };
        assert_eq!(there, gone, "{method} {query}");
        assert!(there.iter().all(|path| ["object", "selfsubjectaccessreviews"].contains(&path.as_str())), "{there:?}");
    }
}

#[tokio::test]
async fn without_a_dry_run_the_api_server_is_asked_before_side_effects() {
    for (name, plugin, view, labels, phase) in [
        ("unread", &VALIDATING, ValidationView::Stored, json!({"act": "yes"}), Phase::Validate),
        ("as-sent", &VALIDATING, ValidationView::Submitted, json!({"act": "yes", "look": "stored"}), Phase::Validate),
        ("mutated", &MUTATING, ValidationView::Stored, json!({"act": "yes", "look": "stored"}), Phase::Admit),
    ] {
        let (mut path, reviews) = path(plugin, true).await;
        path.pipeline.writes.validation_view = view;
        assert_eq!(path.json("POST", CONFIG_MAPS, &labelled(name, labels.clone())).await.0, 201);
        assert_eq!((acted(name), reviews.load(Ordering::SeqCst)), (vec![(phase, true)], 1), "{name}");
        assert_eq!(path.json("DELETE", &at(name), &json!({})).await.0, 200);
        assert_eq!((acted(name), reviews.load(Ordering::SeqCst)), (vec![(phase, true); 2], 2), "{name}");
    }
}

#[tokio::test]
async fn no_plugin_acts_for_a_caller_without_the_permission() {
    for (name, plugin, view) in [
        ("unread-for-nobody", &VALIDATING, ValidationView::Stored),
        ("as-sent-by-nobody", &VALIDATING, ValidationView::Submitted),
        ("mutated-for-nobody", &MUTATING, ValidationView::Stored),
    ] {
        let (mut path, reviews) = path(plugin, false).await;
        path.pipeline.writes.validation_view = view;
        let (code, status) = path.json("POST", CONFIG_MAPS, &labelled(name, json!({"act": "yes"}))).await;
        assert_eq!((code, &status["reason"]), (403, &json!("Forbidden")), "{name}: {status}");
        assert_eq!((acted(name), reviews.load(Ordering::SeqCst)), (vec![], 1), "{name}");
        assert_eq!(path.stored(&at(name)).await["reason"], "NotFound", "{name}");
    }
}

#[tokio::test]
async fn plugins_without_side_effects_run_with_an_unknown_permission() {
    let (path, reviews) = path(&VALIDATING, false).await;
    assert_eq!(path.json("POST", CONFIG_MAPS, &labelled("harmless", json!({}))).await.0, 201);
    assert_eq!((acted("harmless"), reviews.load(Ordering::SeqCst)), (vec![(Phase::Validate, false)], 0));
}

#[tokio::test]
async fn only_who_may_read_the_page_looks_inside() {
    let (allowed, _) = path(&VALIDATING, true).await;
    let refused = path(&WITNESS, true).await.0;
    assert_eq!(allowed.json("POST", CONFIG_MAPS, &config_map("looked")).await.0, 201);
    let labels = json!({"refuse": "me"});
    assert_eq!(refused.json("POST", CONFIG_MAPS, &labelled("refused", labels)).await.0, 403);
    let plugin = async |path: &Path| {
        let (code, shown) = path.ask("GET", LOOK, "", "").await;
        assert_eq!(code, 200, "{shown}");
        assert!(shown["seats"]["items"].is_array() && shown["caches"]["items"].is_array(), "{shown}");
        shown["plugins"]["items"][0].clone()
    };
    let (one, other) = (plugin(&allowed).await, plugin(&refused).await);
    let counts = |plugin: &Value| [plugin["validate"]["calls"].clone(), plugin["validate"]["refusals"].clone()];
    assert_eq!((&one["name"], counts(&one)), (&json!("Validating"), [json!(1), json!(0)]));
    assert_eq!(counts(&other), [json!(1), json!(1)]);
    let (mut forbidden, _) = path(&VALIDATING, true).await;
    let refusing = from_fn(|_: Request<Body>| async {
        let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {}, "status": {"allowed": false}});
        Ok(Response::builder().status(201).body(full(review.to_string())).unwrap())
    });
    let reviewer = Reviewer::Subject(kube_client(refusing));
    let reviews = AccessReviews::new(authz::Config::new(Mode::AlwaysAllow, reviewer, &Limits::default()));
    forbidden.pipeline.authorizer = Arc::new(Authorizer::new(reviews, Sharing::ByUser));
    let (code, shown) = forbidden.ask("GET", LOOK, "", "").await;
    assert!(code == 403 && !shown.to_string().contains("Validating"), "{shown}");
}

#[tokio::test]
async fn one_of_several_tenants_sees_nothing_that_tenants_share() {
    let (mut path, _) = path(&VALIDATING, true).await;
    let sharing = Sharing::AsTenant("blue".into());
    path.pipeline.tenant = Arc::new(Tenant { sharing, ..Tenant::default() });
    let (code, shown) = path.ask("GET", LOOK, "", "").await;
    assert_eq!((code, &shown["tenant"], shown.get("caches")), (200, &json!("blue"), None));
    assert_eq!(shown["plugins"]["items"][0]["name"], "Validating");
}
