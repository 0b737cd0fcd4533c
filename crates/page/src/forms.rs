//! The page's forms, with which a user gives orders about plugins and asks what-if questions.
//!
//! A form and its answer are documents that do not update themselves, so both work without the page's script. The
//! scheduler accepts a form only from its own site: the browser says from which site a request comes, in a header that
//! no page can set (<https://www.w3.org/TR/fetch-metadata/>).

pub(crate) mod order;
mod what_if;

use axum::{
    Router,
    extract::Request,
    http::{HeaderName, StatusCode},
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
    routing::{get, post},
};

use crate::{
    Source, answers,
    layout::{refused, still_document},
    page::Page,
    viewer::{Refusal, Viewer},
};

const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

pub(crate) fn routes<S: Source>(page: Page<S>) -> Router {
    let sent = Router::new()
        .route("/page/order", post(order::carry_out))
        .route("/page/what-if", post(what_if::answer))
        .layer(middleware::from_fn(only_from_this_site));
    let shown = Router::new().route("/page/order", get(order::form)).route("/page/what-if", get(what_if::form));
    shown.merge(sent).with_state(page)
}

async fn only_from_this_site(request: Request, next: Next) -> Response {
    if request.headers().get(SITE).is_none_or(|site| site != "same-origin") {
        let text = "a form of the page must come from the page itself, in a browser that sends Sec-Fetch-Site\n";
        return (StatusCode::FORBIDDEN, text).into_response();
    }
    next.run(request).await
}

fn refusal(refusal: &Refusal, path: &str, viewer: &Viewer) -> Response {
    let view = refused(refusal);
    answers::html(answers::status(refusal), &still_document(&view.title, &view.content, path, viewer))
}
