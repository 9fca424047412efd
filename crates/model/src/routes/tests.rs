use super::*;

/// Finds routes and writes each as `METHODS /path`.
fn found(files: &[(&str, &str)]) -> Vec<String> {
    let files: Vec<SourceFile<'_>> =
        files.iter().map(|(path, text)| SourceFile { path, text }).collect();
    find(&files, &[])
        .into_iter()
        .map(|route| format!("{} {}", route.methods.join(","), route.path))
        .collect()
}

#[test]
fn routes_that_are_files() {
    let next = [
        ("web/package.json", r#"{"dependencies": {"next": "15"}}"#),
        ("web/src/app/page.tsx", ""),
        ("web/src/app/(shop)/products/[slug]/page.tsx", ""),
        ("web/src/app/docs/[...rest]/page.mdx", ""),
        (
            "web/src/app/api/orders/route.ts",
            "export async function GET() {}\nexport const POST = 1;",
        ),
        ("web/src/app/_private/page.tsx", ""),
        ("web/pages/about.tsx", ""),
        ("web/pages/_app.tsx", ""),
        ("web/pages/api/hello.ts", ""),
        ("other/app/page.tsx", ""),
    ];
    assert_eq!(
        found(&next),
        [
            "GET /",
            "GET /about",
            "ANY /api/hello",
            "GET,POST /api/orders",
            "GET /docs/*",
            "GET /products/:slug"
        ]
    );
    let remix = [
        ("package.json", r#"{"dependencies": {"@remix-run/node": "2"}}"#),
        ("app/routes/_index.tsx", ""),
        ("app/routes/_auth.login.tsx", "export async function action() {}"),
        ("app/routes/posts.$id_.edit.tsx", ""),
        ("app/routes/files.$.tsx", ""),
        ("app/routes/cart/route.tsx", ""),
    ];
    assert_eq!(
        found(&remix),
        ["GET /", "GET /cart", "GET /files/*", "GET,POST /login", "GET /posts/:id/edit"]
    );
    let svelte = [
        ("package.json", r#"{"devDependencies": {"@sveltejs/kit": "2"}}"#),
        ("src/routes/+page.svelte", ""),
        ("src/routes/(app)/items/[id=integer]/+page.svelte", ""),
        ("src/routes/api/+server.ts", "export const GET = () => {};"),
    ];
    assert_eq!(found(&svelte), ["GET /", "GET /api", "GET /items/:id"]);
    let nuxt = [
        ("package.json", r#"{"dependencies": {"nuxt": "3"}}"#),
        ("pages/index.vue", ""),
        ("pages/users/[id].vue", ""),
        ("server/api/users.post.ts", ""),
        ("server/api/users/index.ts", ""),
    ];
    assert_eq!(found(&nuxt), ["GET /", "ANY /api/users", "GET /users/:id"]);
}

#[test]
fn routes_of_express_with_routers_in_other_files() {
    let files = [
        (
            "src/app.js",
            r#"import express from 'express';
import users, { more } from './routes/users.js';
const app = express();
const admin = express.Router();
app.get('/', (q, r) => r.send('x'));
admin.post('/ban/:id', ban);
app.use('/admin', guard, admin);
app.use('/api/users', users);
app.use('/v2', require('./routes/v2'));
const data = await axios.get('/not-a-route', {});
const other = api.get('/neither', {});
app.route('/books').get(list).post((a, b) => {}); done();
"#,
        ),
        (
            "src/routes/users.js",
            "const router = Router();\nrouter.get('/', list);\nrouter.delete('/:id', drop);",
        ),
        ("src/routes/v2/index.ts", "router.all('/ping', pong)"),
        ("src/app.test.js", ""),
    ];
    assert_eq!(
        found(&files),
        [
            "GET /",
            "POST /admin/ban/:id",
            "GET /api/users",
            "DELETE /api/users/:id",
            "GET,POST /books",
            "ANY /v2/ping"
        ]
    );
}

#[test]
fn routes_of_fastify_with_scopes_that_pass_themselves_on() {
    let files = [
        (
            "api/app.js",
            r#"import { shopRoutes } from './routes/shop.js';
import { adminRoutes } from './routes/admin.js';
await app.register(async (v1) => {
  shopRoutes(v1, shared);
  v1.get('/session', async () => 1);
  await v1.register(async (admin) => adminRoutes(admin, shared), { prefix: '/admin' });
}, { prefix: '/v1' });
app.route({ method: ['GET', 'HEAD'], url: '/health', handler });
"#,
        ),
        (
            "api/routes/shop.js",
            "export function shopRoutes(app, { x }) {\n  app.get('/products/:slug', async (request) => {\n  const a = await request.api.get('/v9/x', 1);\n });\n}",
        ),
        (
            "api/routes/admin.js",
            "export function adminRoutes(app) {\n  app.post('/orders', async () => {});\n}",
        ),
    ];
    assert_eq!(
        found(&files),
        ["GET,HEAD /health", "POST /v1/admin/orders", "GET /v1/products/:slug", "GET /v1/session"]
    );
}

#[test]
fn routes_of_hono() {
    let files = [(
        "src/index.ts",
        "import { Hono } from 'hono'\nconst books = new Hono()\nbooks.get('/:id{[0-9]+}', (c) => c.text('x'))\nconst app = new Hono()\n  .get('/a', (c) => 1)\n  .post('/b', (c) => 2)\napp.route('/books', books)\n",
    )];
    assert_eq!(found(&files), ["GET /a", "POST /b", "GET /books/:id"]);
}

#[test]
fn routes_of_python() {
    let flask = [(
        "app.py",
        "bp = Blueprint('x', __name__, url_prefix='/shop')\n@app.route('/')\ndef a(): ...\n@bp.route('/buy/<int:id>', methods=['GET', 'POST'])\ndef b(): ...\n@bp.get(\n  '/list')\ndef c(): ...\n",
    )];
    assert_eq!(found(&flask), ["GET /", "GET,POST /shop/buy/:id", "GET /shop/list"]);
    let fastapi = [
        (
            "app/main.py",
            "from .routers import users\nfrom app.routers.items import router as items\napp.include_router(users.router, prefix=\"/api\")\napp.include_router(items, prefix='/v1')\n@app.get('/health')\nasync def h(): ...\n",
        ),
        (
            "app/routers/users.py",
            "router = APIRouter(prefix=\"/users\")\n@router.get(\"/{id}\")\ndef one(): ...\n",
        ),
        (
            "app/routers/items.py",
            "router = APIRouter()\n@router.post(\"/items/{path:path}\")\ndef put(): ...\n",
        ),
    ];
    assert_eq!(found(&fastapi), ["GET /api/users/:id", "GET /health", "POST /v1/items/*"]);
    let django = [
        (
            "site/urls.py",
            "urlpatterns = [\n path('', home),\n path('shop/', include('shop.urls')),\n re_path(r'^blog/(?P<year>[0-9]{4})/$', year),\n]",
        ),
        ("shop/urls.py", "urlpatterns = [path('cart/<slug:which>/', cart)]"),
    ];
    assert_eq!(found(&django), ["ANY /", "ANY /blog/:year", "ANY /shop/cart/:which"]);
}

#[test]
fn routes_of_rails_and_phoenix() {
    let rails = [(
        "config/routes.rb",
        "Rails.application.routes.draw do\n  root 'home#index'\n  get '/about', to: 'x#y' # words\n  namespace :admin do\n    resources :posts, only: [:index, :show] do\n      resources :comments, only: :create\n      member do\n        post :publish\n      end\n    end\n  end\n  resource :cart, except: [:new, :edit, :create, :destroy]\nend\n",
    )];
    assert_eq!(
        found(&rails),
        [
            "GET /",
            "GET /about",
            "GET /admin/posts",
            "GET /admin/posts/:id",
            "POST /admin/posts/:post_id/comments",
            "POST /admin/posts/:post_id/publish",
            "GET,PATCH,PUT /cart"
        ]
    );
    let phoenix = [(
        "lib/shop_web/router.ex",
        "defmodule R do\n  use ShopWeb, :router\n  scope \"/api\", ShopWeb do\n    pipe_through :api\n    get \"/items\", ItemController, :index\n    live \"/live/:id\", Page\n    resources \"/users\", UserController, only: [:delete]\n  end\nend\n",
    )];
    assert_eq!(found(&phoenix), ["GET /api/items", "GET /api/live/:id", "DELETE /api/users/:id"]);
}

#[test]
fn routes_of_laravel() {
    let files = [
        (
            "routes/web.php",
            "Route::get('/', fn () => 1);\nRoute::prefix('admin')->middleware('x')->group(function () {\n  Route::match(['get', 'post'], '/users/{id}', [C::class, 'm']);\n});\n",
        ),
        (
            "routes/api.php",
            "Route::apiResource('photos', P::class);\nRoute::group(['prefix' => 'v1'], function () { Route::delete('x/{y?}', 'C@d'); });",
        ),
    ];
    assert_eq!(
        found(&files),
        [
            "GET /",
            "GET,POST /admin/users/:id",
            "GET,POST /api/photos",
            "DELETE,GET,PUT /api/photos/:photo",
            "DELETE /api/v1/x/:y"
        ]
    );
}

#[test]
fn routes_of_compiled_languages() {
    let spring = [(
        "src/Orders.java",
        "@RestController\n@RequestMapping(\"/api/orders\")\npublic class Orders {\n  @GetMapping\n  List all() {}\n  @PostMapping(path = \"/{id}/pay\")\n  void pay() {}\n  @RequestMapping(value = \"/x\", method = RequestMethod.PUT)\n  void x() {}\n}",
    )];
    assert_eq!(
        found(&spring),
        ["GET /api/orders", "POST /api/orders/:id/pay", "PUT /api/orders/x"]
    );
    let axum = [
        (
            "src/main.rs",
            "fn app() -> Router { Router::new().route(\"/\", get(root)).nest(\"/api\", api::routes()) }",
        ),
        (
            "src/api.rs",
            "pub fn routes() -> Router {\n Router::new().route(\"/users/{id}\", get(one).delete(drop_user))\n .route(\"/files/{*rest}\", post(put))\n}",
        ),
    ];
    assert_eq!(found(&axum), ["GET /", "POST /api/files/*", "DELETE,GET /api/users/:id"]);
    let actix = [(
        "src/main.rs",
        "#[get(\"/hello/{name}\")]\nasync fn h() {}\nfn c(cfg: &mut C) { cfg.service(web::scope(\"/app\").service(web::resource(\"/x\").route(web::get().to(a)).route(web::post().to(b))).route(\"/y\", web::put().to(c))); }",
    )];
    assert_eq!(found(&actix), ["GET,POST /app/x", "PUT /app/y", "GET /hello/:name"]);
    let gin = [(
        "main.go",
        "func main() {\n r := gin.Default()\n r.GET(\"/ping\", ping)\n v1 := r.Group(\"/v1\")\n users := v1.Group(\"/users\")\n users.POST(\"/:id\", h)\n mux.HandleFunc(\"GET /plain/{id}\", p)\n}",
    )];
    assert_eq!(found(&gin), ["GET /ping", "GET /plain/:id", "POST /v1/users/:id"]);
}

/// Forms that applications have beside the plainest ones.
#[test]
fn routes_in_the_forms_that_applications_have() {
    let package = |name: &'static str| ("package.json", name);
    let next = [
        package(r#"{"dependencies": {"next": "15"}}"#),
        ("app/api/auth/[...all]/route.ts", "const h = A();\nexport { h as GET, h as POST };"),
        ("app/api/five/route.ts", "export const { GET, POST } = handlers;"),
    ];
    assert_eq!(found(&next), ["GET,POST /api/auth/*", "GET,POST /api/five"]);
    let router = [
        package(r#"{"devDependencies": {"@react-router/dev": "7"}}"#),
        (
            "app/routes.ts",
            "export default [index('./home.tsx'), route('about', './a.tsx'), layout('./l.tsx', [route('login', './b.tsx')]),\n ...prefix('concerts', [index('./c.tsx'), route(':city', './d.tsx', [route('map', './m.tsx')])])]",
        ),
        ("app/routes/sitemap[.]xml.tsx", ""),
    ];
    let expected = [
        "GET /",
        "GET /about",
        "GET /concerts",
        "GET /concerts/:city",
        "GET /concerts/:city/map",
        "GET /login",
        "GET /sitemap.xml",
    ];
    assert_eq!(found(&router), expected);
    let nuxt = [package(r#"{"dependencies": {"nuxt": "4"}}"#), ("app/pages/(open)/about.vue", "")];
    assert_eq!(found(&nuxt), ["GET /about"]);
    let express = [(
        "app.js",
        "const app = express()\napp.get(['/a', '/b'], h)\n// app.get('/old', h)\napp.route('/book')\n  .get((q, r) => { r.get('x', 1) })\n  .post(make)\napp.all('*', none)\n",
    )];
    assert_eq!(found(&express), ["ANY /*", "GET /a", "GET /b", "GET,POST /book"]);
    let fastify = [
        ("app.js", "fastify.register(require('./routes/users'), { prefix: '/users' })"),
        ("routes/users.js", "async function routes (fastify) {\n  fastify.get('/:id', one)\n}"),
    ];
    assert_eq!(found(&fastify), ["GET /users/:id"]);
    let hono = [
        (
            "index.ts",
            "import authors from './authors'\nconst app = new Hono().basePath('/api')\napp.get('/x', h)\napp.on(['PUT', 'DELETE'], '/post', h)\napp.route('/authors', authors)\n",
        ),
        ("authors.ts", "const app = new Hono()\napp.get('/', h).post('/', h)\n"),
    ];
    assert_eq!(found(&hono), ["GET,POST /api/authors", "DELETE,PUT /api/post", "GET /api/x"]);
    let python = [
        (
            "site/urls.py",
            "router.register(r'users', V)\nurlpatterns = [\n path('api/', include(router.urls)),\n # path('old/', o),\n]",
        ),
        (
            "main.py",
            "inner = APIRouter(prefix='/inner')\n@inner.get('/one')\ndef one(): ...\napp.include_router(inner, prefix='/v2')\n@app.api_route('/both', methods=['GET', 'PATCH'])\ndef b(): ...\napp.add_url_rule('/rule', 'rule', view, methods=['PUT'])\n",
        ),
    ];
    assert_eq!(
        found(&python),
        [
            "ANY /api/users",
            "ANY /api/users/:pk",
            "GET,PATCH /both",
            "PUT /rule",
            "GET /v2/inner/one"
        ]
    );
    let rails = [(
        "config/routes.rb",
        "resources :photos, :videos, only: [:index]\nresources :articles, path: 'posts', only: [] do\n  collection { get :search }\n  member { post :like }\nend\nget 'profile(/:tab)', to: 'u#s'\nmatch 'both', to: 'a#b', via: [:get, :post]\nconcern :talk do\n  resources :comments\nend\nmount Sidekiq::Web => '/sidekiq'\n# get '/old', to: 'o#o'\n",
    )];
    let expected = [
        "GET,POST /both",
        "GET /photos",
        "POST /posts/:article_id/like",
        "GET /posts/search",
        "GET /profile",
        "ANY /sidekiq",
        "GET /videos",
    ];
    assert_eq!(found(&rails), expected);
    let laravel = [(
        "routes/web.php",
        "Route::resource('users', U::class)->only(['index', 'destroy']);\nRoute::resource('photos.comments', P::class)->only('index');\nRoute::apiResources(['cars' => C::class]);\n// Route::get('/old', 'x');\n",
    )];
    let expected = [
        "GET,POST /cars",
        "DELETE,GET,PUT /cars/:car",
        "GET /photos/:photo/comments",
        "GET /users",
        "DELETE /users/:user",
    ];
    assert_eq!(found(&laravel), expected);
    let axum = [
        (
            "src/main.rs",
            "fn app() {\n let api = Router::new().route(\"/me\", get(me));\n Router::new().nest(\"/api\", api).nest(\"/users\", users::router()).nest(\"/items\", crate::items::router())\n}",
        ),
        ("src/users.rs", "pub fn router() -> Router { Router::new().route(\"/\", get(all)) }"),
        ("src/items/mod.rs", "pub fn router() -> Router { Router::new().route(\"/x\", get(x)) }"),
    ];
    assert_eq!(found(&axum), ["GET /api/me", "GET /items/x", "GET /users"]);
    let actix = [
        (
            "src/main.rs",
            "fn main() { App::new().service(web::scope(\"/users\").configure(users::config)).service(web::scope(\"/v1\").service(one)) }\n#[get(\"/one\")]\nasync fn one() {}\n#[route(\"/r\", method = \"GET\", method = \"POST\")]\nasync fn r() {}",
        ),
        (
            "src/users.rs",
            "pub fn config(cfg: &mut C) { cfg.service(web::resource(\"\").route(web::get().to(l))).route(\"/{id}\", web::delete().to(d)); }",
        ),
    ];
    assert_eq!(found(&actix), ["GET,POST /r", "GET /users", "DELETE /users/:id", "GET /v1/one"]);
    let gin = [
        (
            "main.go",
            "func main() {\n api := r.Group(\"/api\")\n users.Register(api.Group(\"/users\"))\n items(api)\n q := c.Query().Get(\"\", x)\n}\nfunc items(g *gin.RouterGroup) { g.PUT(\"/items\", put) }",
        ),
        (
            "users/users.go",
            "package users\nfunc Register(g *gin.RouterGroup) { g.GET(\"/:id\", one); g.POST(\"\", create) }",
        ),
    ];
    assert_eq!(found(&gin), ["PUT /api/items", "POST /api/users", "GET /api/users/:id"]);
}

#[test]
fn a_route_belongs_to_the_app_whose_folder_has_it() {
    let files = [
        SourceFile { path: "apps/api/src/app.js", text: "\n\napp.get('/x', h)" },
        SourceFile { path: "tools/server.js", text: "app.get('/y', h)" },
    ];
    let app = |app: &str, folder: &str| AppFolder { app: app.into(), folder: folder.into() };
    let routes = find(&files, &[app("api", "apps/api"), app("web", "apps/web")]);
    assert_eq!(
        (routes[1].app.as_deref(), routes[1].source.as_str()),
        (Some("api"), "apps/api/src/app.js:3")
    );
    assert_eq!(routes[0].app, None);
    let routes = find(&files, &[app("only", ".")]);
    assert!(routes.iter().all(|route| route.app.as_deref() == Some("only")));
}

#[test]
fn hostile_source_ends_soon() {
    let open = "app.register(".repeat(2_000);
    let deep = format!("import x from './a'\n{}", "(".repeat(100_000));
    let files = [
        SourceFile { path: "a.js", text: &open },
        SourceFile { path: "b.js", text: &deep },
        SourceFile {
            path: "c.js",
            text: "import a from './d.js'\nimport b from './c.js'\napp.use('/x', a)\napp.use('/y', b)",
        },
        SourceFile {
            path: "d.js",
            text: "import c from './c.js'\napp.use('/z', c)\napp.get('/end', h)",
        },
    ];
    let routes = find(&files, &[]);
    assert!(routes.len() <= MOST, "{}", routes.len());
}

const MOST: usize = 64;
