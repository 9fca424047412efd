//! The one place where a failure becomes a response.

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use hothouse_api::ErrorBody;
use hothouse_model::{Failure, FailureKind};

/// A failure, as the response to a client.
pub(crate) struct ErrorResponse(pub(crate) Failure);

impl From<Failure> for ErrorResponse {
    fn from(failure: Failure) -> Self {
        Self(failure)
    }
}

impl IntoResponse for ErrorResponse {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.kind.http_status())
            .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        if self.0.kind == FailureKind::Internal {
            tracing::error!(failure = ?self.0, "internal failure");
        }
        (status, Json(ErrorBody { error: self.0 })).into_response()
    }
}

/// Converts a parse error, such as of a name, to a usage failure.
pub(crate) fn usage(error: &dyn std::error::Error) -> ErrorResponse {
    ErrorResponse(Failure::of(FailureKind::Usage, error))
}
