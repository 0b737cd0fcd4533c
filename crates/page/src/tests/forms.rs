//! The forms: orders are confirmed, and come from the page itself. What-if questions are answered.

use futures::{FutureExt as _, future::BoxFuture};

use super::*;
use crate::{WhatIf, WhatIfError, WhatIfQuestion, owner_routes};

const FORM: &str = "application/x-www-form-urlencoded";
/// `EVIL` in an address.
const EVIL_NAME: &str = "%3Cscript%3Ealert('x')%3C/script%3E";

/// Answers that one pod gets a node and another pod does not, with hostile texts.
#[derive(Debug)]
struct Answers;

impl WhatIf for Answers {
    fn answer(&self, question: WhatIfQuestion) -> BoxFuture<'_, Result<Vec<u8>, WhatIfError>> {
        if question.pods.is_empty() {
            return async { Err(WhatIfError::Invalid(format!("{EVIL} is missing"))) }.boxed();
        }
        let answer = json!({
            "clusterState": EVIL, "warnings": [EVIL],
            "variants": [{
                "name": format!("{} added, {:?} removed", question.added_nodes, question.removed_nodes),
                "placed": 1, "pending": 1,
                "pods": [
                    {"namespace": EVIL, "name": EVIL, "node": EVIL},
                    {"namespace": "a", "name": "b", "node": null, "refusal": {"reason": "Unschedulable", "message": EVIL}},
                ],
                "evictions": [{"namespace": EVIL, "name": EVIL, "node": EVIL}],
            }],
        });
        async move { Ok(answer.to_string().into_bytes()) }.boxed()
    }
}

fn scheduler() -> (Hostile, Page<Hostile>) {
    let scheduler = Hostile { nodes: 1, ..Hostile::default() };
    let page =
        Page::new(scheduler.clone(), Health::default(), Arc::default(), History::default(), Some(Arc::new(Answers)));
    (scheduler, page)
}

/// Sends a form as a browser does that names this site as the sender.
async fn submit(page: &Router, path: &str, site: Option<&str>, body: &str) -> (StatusCode, String) {
    let request = Request::post(path).header(header::HOST, "127.0.0.1:8080").header(header::CONTENT_TYPE, FORM);
    let request = site.into_iter().fold(request, |request, site| request.header("sec-fetch-site", site));
    let Ok(response) = page.clone().oneshot(request.body(Body::from(body.to_owned())).expect("a request")).await;
    let (status, headers) = (response.status(), response.headers().clone());
    let body = to_bytes(response.into_body(), usize::MAX).await.expect("a body");
    let location = headers.get(header::LOCATION).map(|place| place.to_str().expect("text").to_owned());
    (status, location.unwrap_or_else(|| String::from_utf8(body.to_vec()).expect("text")))
}

fn assert_no_script(text: &str) {
    assert_eq!(text.matches("<script").count(), 1, "{text}");
}

#[tokio::test]
async fn an_order_is_confirmed_before_it_is_carried_out() {
    let (scheduler, page) = scheduler();
    let page = owner_routes(page);
    let (_, text) = get(&page, &format!("/page/plugins?name={EVIL_NAME}")).await;
    assert!(text.contains(">Reload</a>") && text.contains(">Disable</a>"), "{text}");
    assert!(!text.contains(">Enable</a>") && !text.contains(">Roll back</a>"), "it serves, and has no other binary");
    let (status, text) = get(&page, &format!("/page/order?plugin={EVIL_NAME}&order=disable")).await;
    assert_eq!(status, StatusCode::OK, "{text}");
    assert_no_script(&text);
    assert!(text.contains("Pods are scheduled as if no profile named") && text.contains("method=\"post\""), "{text}");
    assert!(scheduler.orders.lock().expect("no panic").is_empty(), "the form changes nothing");

    let order = format!("plugin={EVIL_NAME}&order=disable&digest={EVIL_NAME}");
    for site in [None, Some("cross-site"), Some("same-site"), Some("none")] {
        assert_eq!(submit(&page, "/page/order", site, &order).await.0, StatusCode::FORBIDDEN, "{site:?}");
    }
    let same = Some("same-origin");
    let (status, text) = submit(&page, "/page/order", same, &order.replace("&digest=", "&digest=other")).await;
    assert!(status == StatusCode::CONFLICT && text.contains("changed after this form was shown"), "{text}");
    let (status, text) = submit(&page, "/page/order", same, &order.replace("=disable", "=rollback")).await;
    assert!(status == StatusCode::CONFLICT && text.contains("has no earlier binary"), "{text}");
    assert_no_script(&text);
    let (status, text) = submit(&page, "/page/order", same, &order.replace("=disable", "=stop")).await;
    assert!(
        status == StatusCode::BAD_REQUEST && text.contains("expected reload, enable, disable or rollback"),
        "{text}"
    );
    let (status, _) = submit(&page, "/page/order", same, "plugin=other&order=disable").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(scheduler.orders.lock().expect("no panic").is_empty(), "none of these was carried out");

    let (status, place) = submit(&page, "/page/order", same, &order).await;
    assert_eq!(status, StatusCode::SEE_OTHER, "{place}");
    assert!(place.starts_with("/page/plugins?name=%3Cscript"), "{place}");
    let (_, text) = get(&page, &format!("/page/plugins?name={EVIL_NAME}")).await;
    assert!(text.contains(">Enable</a>") && !text.contains(">Disable</a>"), "the view is not the one before: {text}");
    assert_eq!(*scheduler.orders.lock().expect("no panic"), [(EVIL.to_owned(), Order::Disable)]);
}

#[tokio::test]
async fn without_authentication_there_are_no_orders() {
    let (scheduler, page) = scheduler();
    let page = loopback_routes(page);
    let (status, text) = get(&page, &format!("/page/order?plugin={EVIL_NAME}&order=disable")).await;
    assert!(status == StatusCode::FORBIDDEN && text.contains("a user without authentication may not update"), "{text}");
    let order = format!("plugin={EVIL_NAME}&order=disable&digest={EVIL_NAME}");
    assert_eq!(submit(&page, "/page/order", Some("same-origin"), &order).await.0, StatusCode::FORBIDDEN);
    assert!(scheduler.orders.lock().expect("no panic").is_empty());
}

#[tokio::test]
async fn a_question_about_pasted_manifests_is_answered() {
    let (_, page) = scheduler();
    let page = loopback_routes(page);
    let (status, text) = get(&page, "/page/what-if").await;
    assert!(status == StatusCode::OK && text.contains("<textarea name=\"pods\""), "{text}");
    let same = Some("same-origin");
    let asked = "pods=kind%3A+Pod&added=3&node=kind%3A+Node&removed=n1%2C+n2";
    assert_eq!(submit(&page, "/page/what-if", None, asked).await.0, StatusCode::FORBIDDEN);
    let (status, text) = submit(&page, "/page/what-if", same, asked).await;
    assert_eq!(status, StatusCode::OK, "{text}");
    assert_no_script(&text);
    for part in [
        "3 added, [&quot;n1&quot;, &quot;n2&quot;] removed",
        "1 pods get a node",
        "Unschedulable: ",
        ">kind: Pod</textarea>",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    for (mistake, part) in [("pods=", "is missing"), ("pods=x&added=many", "nodes to add: many: expected a number")] {
        let (status, text) = submit(&page, "/page/what-if", same, mistake).await;
        assert!(status == StatusCode::BAD_REQUEST && text.contains(part), "{text}");
        assert_no_script(&text);
    }
    let none = super::page(1, 0);
    let (_, text) = get(&none, "/page/what-if").await;
    assert!(text.contains("does not answer what-if questions") && !text.contains("<textarea"), "{text}");
}
