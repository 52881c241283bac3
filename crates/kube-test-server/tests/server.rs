//! Servers in tests: clients, users, controllers, and several servers at a time.

#![allow(clippy::unwrap_used)]

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, PostParams};
use kube_test_server::{Error, TestServer};

fn named<T: Default>(name: &str, set: impl FnOnce(&mut T, ObjectMeta)) -> T {
    let mut object = T::default();
    set(&mut object, ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() });
    object
}

fn config_map(name: &str) -> ConfigMap {
    named(name, |map: &mut ConfigMap, metadata| map.metadata = metadata)
}

#[tokio::test]
async fn servers_do_not_share_objects() {
    let (one, two) = (TestServer::start().await.unwrap(), TestServer::start().await.unwrap());
    let maps = |server: &TestServer| Api::<ConfigMap>::default_namespaced(server.client());
    maps(&one).create(&PostParams::default(), &config_map("a")).await.unwrap();
    assert!(maps(&one).get_opt("a").await.unwrap().is_some());
    assert!(maps(&two).get_opt("a").await.unwrap().is_none());
    one.stop().await;
    maps(&two).create(&PostParams::default(), &config_map("a")).await.unwrap();
}

#[tokio::test]
async fn users_have_the_rights_of_their_roles() {
    let server = TestServer::builder().flag("--authorization-mode=RBAC").start().await.unwrap();
    let jane = server.client_as("jane", "developers").await.unwrap();
    let refused = Api::<ConfigMap>::default_namespaced(jane).list(&ListParams::default()).await.unwrap_err();
    assert!(matches!(&refused, kube::Error::Api(status) if status.code == 403), "{refused}");
}

#[tokio::test]
async fn a_namespace_has_its_account_and_can_be_deleted() {
    let server = TestServer::start().await.unwrap();
    let namespaces: Api<Namespace> = Api::all(server.client());
    let namespace = named("n", |namespace: &mut Namespace, metadata| namespace.metadata = metadata);
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    let accounts: Api<ServiceAccount> = Api::namespaced(server.client(), "n");
    accounts.get("default").await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(server.client(), "n");
    assert!(maps.get("kube-root-ca.crt").await.unwrap().data.unwrap()["ca.crt"].contains("BEGIN CERTIFICATE"));
    namespaces.delete("n", &DeleteParams::default()).await.unwrap();
    assert!(namespaces.get_opt("n").await.unwrap().is_none());
}

#[tokio::test]
async fn a_wrong_flag_is_an_error_that_names_it() {
    for (flag, text) in [
        ("--no-such-flag", "--no-such-flag"),
        ("--enable-admission-plugins=X", r#"enable-admission-plugins plugin "X" is unknown"#),
    ] {
        let error = TestServer::builder().flag(flag).start().await.err().unwrap();
        assert!(matches!(&error, Error::Start(_)) && error.to_string().contains(text), "{error}");
    }
}
