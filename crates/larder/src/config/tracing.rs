//! From typed values to settings: `[tracing]`.

use larder_server::settings::TracingSettings;

use super::{
    problem::{Problem, Report},
    reader::Values,
};

/// The default path of a collector.
const PATH: &str = "/v1/traces";
/// OTLP over HTTP.
const PORT: u16 = 4318;

/// The collector; None: the file has no such table, or has a mistake in it, which is in the report.
pub(super) fn tracing(root: &Values, report: &mut Report) -> Option<TracingSettings> {
    if !root.is_set("tracing") {
        return None;
    }
    let values = root.table("tracing");
    let endpoint = values.get::<String>("endpoint")?;
    let Some((host, port, path)) = parse(&endpoint) else {
        let message = format!(
            "expected a URL such as \"http://127.0.0.1:4318/v1/traces\", found \"{endpoint}\""
        );
        report.error(Problem::new(values.location("endpoint"), message));
        return None;
    };
    Some(TracingSettings {
        host,
        port,
        path,
        service: values.get("service")?,
        one_in: values.get("one_in")?,
    })
}

fn parse(endpoint: &str) -> Option<(String, u16, String)> {
    let uri: http::Uri = endpoint.parse().ok()?;
    let authority = uri.authority().filter(|authority| !authority.as_str().contains('@'))?;
    if uri.scheme_str() != Some("http") || uri.query().is_some() || authority.host().is_empty() {
        return None;
    }
    let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
    let path = if matches!(uri.path(), "" | "/") { PATH } else { uri.path() };
    Some((host, authority.port_u16().unwrap_or(PORT), path.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn endpoints() {
        let parsed = |host: &str, port, path: &str| Some((host.to_owned(), port, path.to_owned()));
        assert_eq!(
            parse("http://127.0.0.1:4318/v1/traces"),
            parsed("127.0.0.1", 4318, "/v1/traces")
        );
        assert_eq!(parse("http://otel"), parsed("otel", 4318, "/v1/traces"));
        assert_eq!(parse("http://[::1]:80/x"), parsed("::1", 80, "/x"));
        for wrong in
            ["https://otel", "otel:4318", "http://", "http://u:p@otel", "http://otel/?a", ""]
        {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
