//! The second write, which corrects the owners: its failure does not change the answer to the first one.

use super::*;
use crate::config::FieldOwnership;
use crate::upstream::UpstreamError;

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// The answer to a write of owners.
#[derive(Clone, Copy)]
enum Second {
    Refused(u16),
    Unreachable,
}

/// Returns a transport that answers every create with managedFields that include a field of admission, every write of owners with
/// `second`, and every read with YAML; and the list of these writes and reads.
fn owning(server: &Arc<embedded::Server>, second: Second) -> (SharedTransport, Arc<Mutex<Vec<String>>>) {
    let (server, requests) = (server.clone(), Arc::new(Mutex::new(Vec::new())));
    let sent = requests.clone();
    let transport = from_fn(move |request: Request<Body>| {
        let (server, requests) = (server.clone(), requests.clone());
        async move {
            let is_create = request.method() == Method::POST;
            if ![ROLES, PODS].iter().any(|stored| request.uri().path().starts_with(stored)) {
                return crate::upstream::Transport::send(&server, request).await;
            }
            if is_create {
                let mut object: Value =
                    serde_json::from_slice(&request.into_body().collect().await.unwrap().to_bytes()).unwrap();
                object["metadata"]["managedFields"] = json!([{"manager": "m", "operation": "Update", "fieldsType": "FieldsV1",
                    "apiVersion": object["apiVersion"], "fieldsV1": {"f:rules": {}, "f:everything": {}}}]);
                let answer = Response::builder().status(201).header("content-type", "application/json");
                return Ok(answer.body(full(object.to_string())).unwrap());
            }
            requests.lock().unwrap().push(format!("{} {}", request.method(), request.uri()));
            if request.method() == Method::GET {
                let answer = Response::builder().header("content-type", "application/yaml");
                return Ok(answer.body(full("read: again")).unwrap());
            }
            match second {
                Second::Refused(code) => Ok(Response::builder().status(code).body(full("{}")).unwrap()),
                Second::Unreachable => Err(UpstreamError::Timeout),
            }
        }
    });
    (transport, sent)
}

#[tokio::test]
async fn a_write_is_answered_although_the_correction_of_its_owners_fails() {
    for (second, attempts) in [(Second::Refused(403), 2), (Second::Refused(500), 1), (Second::Unreachable, 1)] {
        let server = embedded::Server::new(Arc::default());
        let (transport, requests) = owning(&server, second);
        let path = Path::over(server, transport).await;
        let metadata = json!({"name": "odd?name#1", "labels": {"mark": "me"}});
        let role =
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata, "rules": []});
        let uri = format!("{ROLES}?fieldManager=m");
        let (code, created) = path.json("POST", &uri, &role).await;
        assert_eq!((code, &created["metadata"]["name"]), (201, &json!("odd?name#1")), "{created}");
        // The proxy writes as the caller, then as itself if the caller may not; never at the path of another object.
        let mut expected = vec![format!("PATCH {ROLES}/odd%3Fname%231?fieldManager=m"); attempts];
        assert_eq!(*requests.lock().unwrap(), expected);

        let headers = [("content-type", "application/json"), ("accept", "application/yaml")];
        let answer = path.ask_raw("POST", &uri, &headers, role.to_string()).await;
        let form = answer.headers()["content-type"].to_str().unwrap();
        assert_eq!((answer.status().as_u16(), form), (201, "application/yaml"));
        expected.extend(expected.clone());
        expected.push(format!("GET {ROLES}/odd%3Fname%231?"));
        assert_eq!(*requests.lock().unwrap(), expected);
    }
}

#[tokio::test]
async fn the_flag_selects_the_kinds_whose_owners_are_corrected() {
    for (ownership, expected) in [
        (FieldOwnership::Exact, &[ROLES][..]),
        (FieldOwnership::ExactAll, &[ROLES, PODS]),
        (FieldOwnership::Writer, &[]),
    ] {
        let server = embedded::Server::new(Arc::default());
        let (transport, requests) = owning(&server, Second::Refused(500));
        let mut path = Path::over(server, transport).await;
        path.pipeline.writes.field_ownership = ownership;
        let metadata = json!({"name": "a", "labels": {"mark": "me"}});
        let role =
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata, "rules": []});
        let spec = json!({"containers": [{"name": "c", "image": "i"}]});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
        for (at, object) in [(ROLES, role), (PODS, pod)] {
            assert_eq!(path.json("POST", &format!("{at}?fieldManager=m"), &object).await.0, 201);
        }
        let expected: Vec<String> = expected.iter().map(|at| format!("PATCH {at}/a?fieldManager=m")).collect();
        assert_eq!(*requests.lock().unwrap(), expected);
    }
}
