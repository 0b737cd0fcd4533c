//! The routes: the views, their style and script, and the sign-in. Every answer has the same headers. The headers allow
//! the browser to run and fetch only the page's own script and style.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    Extension, Form, Json, Router,
    extract::{Query, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse as _, Redirect, Response, Sse, sse::Event},
    routing::{get, post},
};
use berth_serving::secure_serving::{PAGE, RequestUser, TOKEN_COOKIE};
use futures::{Stream, stream};
use maud::DOCTYPE;
use serde_json::json;
use tokio::time::Instant;

use crate::{
    Source,
    answers::{html, status},
    forms,
    layout::{View, document, live, metadata, refused},
    page::Page,
    viewer::{Refusal, Right, Viewer},
    views::{Kind, Overview, Parameters, Shown},
};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");
const ICON: &str = include_str!("icon.svg");

/// The duration of one stream. The browser then asks again, because the server limits the time that an answer may take
/// to be sent.
const STREAM: Duration = Duration::from_secs(25);
const AGAIN_AFTER: Duration = Duration::from_millis(500);

/// The maximum length of a token. Browsers store no larger cookies.
const MAX_TOKEN: usize = 3_800;

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; \
                      base-uri 'none'; frame-ancestors 'none'";

const HEADERS: [(HeaderName, &str); 5] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// The routes for callers that each request identifies with a [`RequestUser`].
pub fn routes<S: Source>(page: Page<S>) -> Router {
    Router::new()
        .route("/page/sign-out", post(sign_out))
        .merge(views_and_forms(page))
        .layer(middleware::from_fn(identify))
        .route("/page/sign-in", get(sign_in_form).post(sign_in))
        .merge(assets())
        .layer(middleware::from_fn(with_headers))
}

/// The routes for a loopback address, without authentication. A request must use a loopback name for the host, so that
/// pages of other sites cannot send requests to this page.
pub fn loopback_routes<S: Source>(page: Page<S>) -> Router {
    let start = Router::new().route("/", get(async || Redirect::to(PAGE)));
    start.merge(local_routes(page, Viewer::Anyone)).layer(middleware::from_fn(only_by_local_names))
}

/// The routes for a caller that may see and do everything: the scheduler's own user on the admin socket.
pub fn owner_routes<S: Source>(page: Page<S>) -> Router {
    local_routes(page, Viewer::Owner)
}

fn local_routes<S: Source>(page: Page<S>, viewer: Viewer) -> Router {
    let router = views_and_forms(page).layer(Extension(viewer));
    router.merge(assets()).layer(middleware::from_fn(with_headers))
}

/// The views and the forms. Each request has a [`Viewer`].
fn views_and_forms<S: Source>(page: Page<S>) -> Router {
    let view = |kind: Kind| {
        get(async move |state, Extension(viewer), query, headers| answer(state, viewer, query, headers, kind).await)
            .with_state::<()>(page.clone())
    };
    let views = KINDS.into_iter().fold(Router::new(), |router, kind| router.route(kind.path(), view(kind)));
    views.merge(forms::routes(page))
}

async fn identify(Extension(user): Extension<RequestUser>, mut request: Request, next: Next) -> Response {
    request.extensions_mut().insert(Viewer::User(user));
    next.run(request).await
}

/// `/overview`, the content of the first view as JSON. Callers with a [`RequestUser`] see pods and plugins if the API
/// server allows it. Callers without a user use the socket, and may see everything.
pub fn overview_routes<S: Source>(page: Page<S>) -> Router {
    let answer = async |State(page): State<Page<S>>, user: Option<Extension<RequestUser>>| {
        let viewer = user.map_or(Viewer::Owner, |Extension(user)| Viewer::User(user));
        match overview(&page, &viewer).await {
            Ok(overview) => Json(overview).into_response(),
            Err(refusal) => (status(&refusal), Json(json!({ "error": refusal.to_string() }))).into_response(),
        }
    };
    Router::new().route("/overview", get(answer)).with_state(page)
}

async fn overview<S: Source>(page: &Page<S>, viewer: &Viewer) -> Result<Overview, Refusal> {
    let shown = Shown { plugins: viewer.may(Right::GetPlugins).await?, pods: viewer.may(Right::ListPods(None)).await? };
    Overview::of(page, shown).await
}

const KINDS: [Kind; 5] = [Kind::Now, Kind::Pods, Kind::Pod, Kind::Nodes, Kind::Plugins];

fn assets() -> Router {
    let asset = |kind: &'static str, text: &'static str| get(async move || ([(header::CONTENT_TYPE, kind)], text));
    Router::new()
        .route("/page/icon.svg", asset("image/svg+xml", ICON))
        .route("/page/style.css", asset("text/css; charset=utf-8", STYLE))
        .route("/page/script.js", asset("text/javascript; charset=utf-8", SCRIPT))
}

async fn with_headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

async fn only_by_local_names(request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let site = request.headers().get("sec-fetch-site");
    let is_own = site.is_none_or(|site| site == "same-origin" || site == "none");
    if !is_own || !["localhost", "127.0.0.1", "[::1]"].contains(&name) {
        return (StatusCode::FORBIDDEN, "open this page by its address on this machine\n").into_response();
    }
    next.run(request).await
}

async fn answer<S: Source>(
    State(page): State<Page<S>>,
    viewer: Viewer,
    Query(parameters): Query<Parameters>,
    headers: HeaderMap,
    kind: Kind,
) -> Response {
    let follows = headers.get(header::ACCEPT).is_some_and(|accept| accept == "text/event-stream");
    if follows {
        return Sse::new(renderings(page, viewer, parameters, kind)).into_response();
    }
    match kind.render(&page, &parameters, &viewer).await {
        Ok(view) => html_answer(StatusCode::OK, &view, kind, &viewer),
        Err(refusal) => html_answer(status(&refusal), &refused(&refusal), kind, &viewer),
    }
}

fn html_answer(status: StatusCode, view: &View, kind: Kind, viewer: &Viewer) -> Response {
    html(status, &document(view, kind.path(), viewer))
}

/// The state of a stream of renderings.
struct Following<S> {
    page: Page<S>,
    viewer: Viewer,
    parameters: Parameters,
    kind: Kind,
    until: Instant,
    /// The time until the next rendering.
    pause: Duration,
}

/// Renders the view again and again. Rights are checked each time.
fn renderings<S: Source>(
    page: Page<S>,
    viewer: Viewer,
    parameters: Parameters,
    kind: Kind,
) -> impl Stream<Item = Result<Event, Infallible>> + Send {
    let following = Following { page, viewer, parameters, kind, until: Instant::now() + STREAM, pause: Duration::ZERO };
    stream::unfold(following, |mut following| async move {
        tokio::time::sleep(following.pause).await;
        if Instant::now() >= following.until {
            return None;
        }
        let view = following.kind.render(&following.page, &following.parameters, &following.viewer).await;
        let view = view.unwrap_or_else(|refusal| Arc::new(refused(&refusal)));
        following.pause = view.every;
        let event = Event::default().event("view").retry(AGAIN_AFTER).data(live(&view).into_string());
        Some((Ok(event), following))
    })
}

/// The form for the sign-in. The query `refused` means that the previous token was refused.
async fn sign_in_form(request: Request) -> Response {
    let was_refused = request.uri().query() == Some("refused");
    let document = maud::html! {
        (DOCTYPE)
        html lang="en" {
            head { (metadata("Sign in")) }
            body.sign-in {
                main {
                    h1 { "Berth" }
                    @if was_refused {
                        p.refused role="alert" { "The API server does not know this token, or the token has expired." }
                    }
                    form action="/page/sign-in" method="post" {
                        label for="token" { "Bearer token" }
                        input #token type="password" name="token" required autocomplete="off" autofocus;
                        button { "Sign in" }
                    }
                    p.note { "The scheduler asks the API server which user the token belongs to and what this user may \
                              see. The browser keeps the token until it is closed. "
                        code { "kubectl create token NAME" } " makes one for a service account." }
                }
            }
        }
    };
    html(StatusCode::OK, &document)
}

#[derive(serde::Deserialize)]
struct SignIn {
    token: String,
}

/// Stores the token in a cookie. The next request shows whether the token is valid.
async fn sign_in(Form(SignIn { token }): Form<SignIn>) -> Response {
    let token = token.trim();
    let is_token = !token.is_empty()
        && token.len() <= MAX_TOKEN
        && token.bytes().all(|byte| byte.is_ascii_graphic() && byte != b';');
    if !is_token {
        return Redirect::to("/page/sign-in?refused").into_response();
    }
    let cookie = format!("{TOKEN_COOKIE}={token}; Path={PAGE}; HttpOnly; Secure; SameSite=Strict");
    ([(header::SET_COOKIE, cookie)], Redirect::to(PAGE)).into_response()
}

async fn sign_out(_: Extension<RequestUser>) -> Response {
    let cookie = format!("{TOKEN_COOKIE}=; Max-Age=0; Path={PAGE}; HttpOnly; Secure; SameSite=Strict");
    ([(header::SET_COOKIE, cookie)], Redirect::to("/page/sign-in")).into_response()
}
