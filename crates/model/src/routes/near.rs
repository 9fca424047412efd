//! Suggests the route that a path was probably meant to be.

use super::Route;
use crate::config::rules::nearest;

/// Returns the known path that is closest to one without a route; `None` if the path has a route, or no other is close.
pub fn near_route(path: &str, routes: &[Route]) -> Option<String> {
    let path = path.split(['?', '#']).next().unwrap_or(path);
    if routes.iter().any(|route| answers(&route.path, path)) {
        return None;
    }
    let parts: Vec<&str> = parts_of(path);
    let near = |route: &Route| {
        let own = parts_of(&route.path);
        let wrong: Vec<usize> = match own.len() == parts.len() {
            true => (0..own.len()).filter(|at| !fits(own[*at], parts[*at])).collect(),
            false => return None,
        };
        // Exactly one segment is mistyped.
        let [at] = wrong.as_slice() else { return None };
        nearest(parts[*at], [own[*at]]).map(|_| {
            let filled = own.iter().zip(&parts).enumerate();
            let filled = filled
                .map(|(n, (own, typed))| if n == *at || !is_open(own) { *own } else { *typed });
            format!("/{}", filled.collect::<Vec<_>>().join("/"))
        })
    };
    routes.iter().find_map(near).or_else(|| {
        let fixed = routes
            .iter()
            .map(|route| route.path.as_str())
            .filter(|path| !path.contains([':', '*']));
        nearest(path, fixed).map(str::to_owned)
    })
}

fn parts_of(path: &str) -> Vec<&str> {
    path.split('/').filter(|part| !part.is_empty()).collect()
}

fn is_open(part: &str) -> bool {
    part.starts_with(':') || part == "*"
}

fn fits(own: &str, typed: &str) -> bool {
    is_open(own) || own == typed
}

/// Returns whether a route matches a path.
pub fn answers(route: &str, path: &str) -> bool {
    let (own, parts) = (parts_of(route), parts_of(path));
    match own.iter().position(|part| *part == "*") {
        Some(rest) => {
            parts.len() >= rest
                && own[..rest].iter().zip(&parts).all(|(own, typed)| fits(own, typed))
        }
        None => {
            own.len() == parts.len() && own.iter().zip(&parts).all(|(own, typed)| fits(own, typed))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_no_route_answers_has_a_near_miss() {
        let route = |path: &str| Route {
            app: None,
            path: path.into(),
            methods: vec![],
            source: String::new(),
        };
        let routes =
            ["/", "/cart", "/products/:slug", "/admin/orders/:id/refund", "/files/*"].map(route);
        for (path, near) in [
            ("/cart", None),
            ("/cart?x=1", None),
            ("/products/vase", None),
            ("/files/a/b/c", None),
            ("/crat", Some("/cart")),
            ("/prodcts/vase", Some("/products/vase")),
            ("/admin/orders/7/refnud", Some("/admin/orders/7/refund")),
            ("/completely-different", None),
        ] {
            assert_eq!(near_route(path, &routes).as_deref(), near, "{path}");
        }
    }
}
