//! The table of routes. docs/openapi.json says the same to programs, docs/admin.md to people; tests
//! hold them equal.

use std::sync::Arc;

use axum::{
    Router,
    http::StatusCode,
    middleware,
    routing::{MethodRouter, get, post, put},
};

use super::{
    App, answer::Refused, control, documents, errors, guard, live, measured, monkey, object,
    objects, pages, plain, purges, tail,
};

/// A path in axum's notation, its methods, and its handlers.
type Route = (&'static str, &'static [&'static str], MethodRouter<Arc<App>>);

/// Every route.
fn table() -> Vec<Route> {
    vec![
        ("/", &["GET"], get(plain::asset)),
        ("/assets/{file}", &["GET"], get(plain::asset)),
        ("/docs/{file}", &["GET"], get(documents::document)),
        ("/health", &["GET"], get(plain::health)),
        ("/ready", &["GET"], get(plain::ready)),
        ("/metrics", &["GET"], get(measured::metrics)),
        ("/api/v1/openapi.json", &["GET"], get(plain::openapi)),
        ("/api/v1/sites", &["GET"], get(plain::sites)),
        ("/api/v1/stats", &["GET"], get(measured::stats)),
        ("/api/v1/history", &["GET"], get(measured::history)),
        ("/api/v1/top", &["GET"], get(measured::top)),
        ("/api/v1/keys", &["GET"], get(measured::keys)),
        ("/api/v1/live", &["GET"], get(live::live)),
        ("/api/v1/hist", &["GET"], get(live::hist)),
        ("/api/v1/log", &["GET"], get(tail::log)),
        ("/api/v1/objects", &["GET"], get(objects::objects)),
        ("/api/v1/object", &["GET"], get(object::object)),
        ("/api/v1/purge", &["POST"], post(purges::purge)),
        ("/api/v1/purges", &["GET"], get(purges::purges)),
        ("/api/v1/errors", &["GET"], get(errors::errors)),
        ("/api/v1/instance", &["GET"], get(control::instance)),
        ("/api/v1/reload", &["POST"], post(control::reload)),
        ("/api/v1/stop", &["POST"], post(control::stop)),
        ("/api/v1/upgrade", &["POST"], post(control::upgrade)),
        (
            "/api/v1/pages",
            &["GET", "PUT", "DELETE"],
            put(pages::put).get(pages::list).delete(pages::delete),
        ),
        ("/cache/stats", &["POST"], post(monkey::stats)),
        ("/cache/add/{*path}", &["POST"], post(monkey::add)),
        ("/cache/reset/{*path}", &["POST"], post(monkey::reset)),
    ]
}

/// The routes with the guard before them.
pub(super) fn router(app: Arc<App>) -> Router {
    let mut router = Router::new();
    for (path, _, service) in table() {
        router = router.route(path, service);
    }
    router
        .fallback(async || {
            Refused::absent("no_route", "there is nothing here: see /api/v1/openapi.json")
        })
        .method_not_allowed_fallback(async || {
            let message = "this is not done with this method: see /api/v1/openapi.json";
            Refused::new(StatusCode::METHOD_NOT_ALLOWED, "bad_method", message)
        })
        .layer(middleware::from_fn_with_state(app.clone(), guard::check))
        .with_state(app)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// All operations of docs/openapi.json and all routes.
    #[test]
    fn the_description_has_these_routes_and_no_others() {
        let text = include_str!("../../../../docs/openapi.json");
        let described: serde_json::Value = serde_json::from_str(text).expect("JSON");
        let mut operations = BTreeSet::new();
        for (path, item) in described["paths"].as_object().expect("paths") {
            for method in item.as_object().expect("methods").keys() {
                operations.insert((path.clone(), method.to_uppercase()));
            }
        }
        let mut routes = BTreeSet::new();
        for (path, methods, _) in table() {
            // OpenAPI has no word for the rest of a path.
            routes.extend(
                methods.iter().map(|method| (path.replace("{*", "{"), (*method).to_owned())),
            );
        }
        assert_eq!(operations, routes);
        let changing = |(path, method): &(String, String)| {
            let security = &described["paths"][path][method.to_lowercase()]["security"];
            security == &serde_json::json!([{"token": []}])
        };
        for operation in &operations {
            assert_eq!(changing(operation), operation.1 != "GET", "{operation:?}: who may");
        }
    }

    /// docs/admin.md has a line for each of them.
    #[test]
    fn the_page_for_people_has_every_route() {
        let page = include_str!("../../../../docs/admin.md");
        for (path, ..) in table() {
            let fixed = path.split('{').next().unwrap_or_default();
            assert!(page.contains(fixed), "{path} is not in docs/admin.md");
        }
    }
}
