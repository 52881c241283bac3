//! The only tenant of a process, which owns everything.

use super::*;
use crate::server::ConnectionBudget;
use crate::tenants::TenantMetrics;
use arc_swap::ArcSwap;
use http::header::HOST;

#[tokio::test]
async fn the_only_tenant_answers_whatever_a_request_addresses() {
    let (path, registry) = (Path::new().await, Registry::new());
    let part = Part {
        pipeline: Arc::new(path.pipeline),
        reviewing: None,
        connections: ConnectionBudget::new(1),
        is_down: Box::new(|| true),
    };
    let tenants = Tenants { parts: vec![Arc::new(part)], default: 0, choice: None };
    let metrics = TenantMetrics::register(&registry).unwrap();
    let tenancy = Tenancy { current: Arc::new(ArcSwap::from_pointee(tenants)), metrics };
    for (uri, code) in [("/api/v1/namespaces/default", 200), ("/tenants/blue/api/v1/namespaces/default", 404)] {
        let request = Request::get(uri).header(HOST, "blue.example.com").header(HOST, "red.example.com");
        let mut request = request.body(crate::body::empty()).unwrap();
        request.extensions_mut().insert(connection());
        assert_eq!(tenancy.handle(request, &Drain::new()).await.status(), code, "{uri}");
    }
    assert!(registry.gather().is_empty(), "no metric names the tenant");
}
