//! Answers in JSON, and refusals.

use axum::{
    body::{Body, Bytes},
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;

/// A refused request: status, a word for programs, a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) status: StatusCode,
    pub(crate) code: &'static str,
    pub(crate) message: String,
}

impl Refused {
    pub(crate) fn new(
        status: StatusCode,
        code: &'static str,
        message: impl Into<String>,
    ) -> Refused {
        Refused { status, code, message: message.into() }
    }

    /// 400: the request cannot be understood.
    pub(crate) fn bad(code: &'static str, message: impl Into<String>) -> Refused {
        Refused::new(StatusCode::BAD_REQUEST, code, message)
    }

    /// 404: the requested thing does not exist.
    pub(crate) fn absent(code: &'static str, message: impl Into<String>) -> Refused {
        Refused::new(StatusCode::NOT_FOUND, code, message)
    }

    /// 503: too many do this already; it works later.
    pub(crate) fn busy(message: impl Into<String>) -> Refused {
        Refused::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let error = serde_json::json!({"error": {"code": self.code, "message": self.message}});
        let mut response = json_as(self.status, &error);
        match self.status {
            StatusCode::UNAUTHORIZED => {
                let scheme = HeaderValue::from_static("Bearer realm=\"larder\"");
                response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
            }
            StatusCode::SERVICE_UNAVAILABLE => {
                response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            _ => {}
        }
        response
    }
}

/// 200 with JSON.
pub(crate) fn json(value: &impl Serialize) -> Response {
    json_as(StatusCode::OK, value)
}

/// JSON with another status.
pub(crate) fn json_as(status: StatusCode, value: &impl Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(mut bytes) => {
            bytes.push(b'\n');
            typed(status, "application/json", bytes)
        }
        // Cannot happen: answers consist of numbers, texts, lists and maps with text keys.
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// A body with its type.
pub(crate) fn typed(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Response {
    let mut response = Response::new(Body::from(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
