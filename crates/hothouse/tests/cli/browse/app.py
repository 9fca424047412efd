"""A shop with everything that can be wrong with a page."""
import http.server, time, json, urllib.parse, threading
SESSIONS={}
PAGE=lambda body,title="Shop",head="": ("<!doctype html><html lang=en><title>%s</title>%s<body>%s"%(title,head,body)).encode()
class H(http.server.BaseHTTPRequestHandler):
    protocol_version="HTTP/1.1"
    def send(self,code,body,kind="text/html",headers=()):
        self.send_response(code); self.send_header("content-type",kind); self.send_header("content-length",str(len(body)))
        for k,v in headers: self.send_header(k,v)
        self.end_headers(); self.wfile.write(body)
    def who(self):
        for part in (self.headers.get("cookie") or "").split("; "):
            if part.startswith("sid=") and part[4:] in SESSIONS: return SESSIONS[part[4:]]
    def do_POST(self):
        body=self.rfile.read(int(self.headers.get("content-length") or 0)); form=urllib.parse.parse_qs(body.decode(errors="replace"))
        if self.path=="/login":
            if form.get("password")==["secret"]:
                sid="s%d"%(len(SESSIONS)+1); SESSIONS[sid]=form["email"][0]
                return self.send(303,b"",headers=[("location","/account"),("set-cookie","sid=%s; Path=/; HttpOnly; Secure; SameSite=Lax"%sid)])
            return self.send(200,PAGE("<p role=alert>Wrong password</p>"))
        if self.path=="/upload": return self.send(200,PAGE("<h1>Got %d bytes</h1>"%len(body)))
        self.send(200,PAGE("<h1>Posted</h1>"))
    def do_GET(self):
        path=urllib.parse.urlparse(self.path).path
        if path=="/popups": return self.send(200,PAGE("<button onclick=\"window.open('/account')\">Open</button>"))
        if path=="/bundle.js": return self.send(200,b"function f(){throw new Error('from-bundle')} f()\n//# sourceMappingURL=/bundle.js.map\n","text/javascript")
        if path=="/bundle.js.map": return self.send(200,json.dumps({"version":3,"sources":["src/cart.ts"],"names":[],"mappings":"AAQE"}).encode(),"application/json")
        if path=="/bundled": return self.send(200,PAGE("<h1>x</h1><script src=/bundle.js></script>"))
        if path=="/boom": return self.send(500,b"no")
        if path=="/slow": time.sleep(1.5); return self.send(200,b"slow","text/plain")
        if path=="/hang": time.sleep(600); return
        if path=="/circle": return self.send(302,b"",headers=[("location","/circle?%s"%time.time())])
        if path=="/cut": self.send_response(200); self.send_header("content-type","text/html"); self.send_header("content-length","5000"); self.end_headers(); self.wfile.write(b"<h1>cut"); self.close_connection=True; return
        if path=="/again": return self.send(200,PAGE("<h1>again</h1>",head="<meta http-equiv=refresh content=0>"))
        if path=="/elsewhere": return self.send(302,b"",headers=[("location","https://denied.example/")])
        if path=="/hop": return self.send(302,b"",headers=[("location","/")])
        if path=="/login": return self.send(200,PAGE("<form method=post action=/login><label>Email <input name=email></label><label>Password <input type=password name=password></label><button>Sign in</button></form>"))
        if path=="/account":
            if not self.who(): return self.send(302,b"",headers=[("location","/login")])
            return self.send(200,PAGE("<h1>Hello %s</h1><script>localStorage.setItem('seen','1')</script>"%self.who()))
        if path=="/forget": SESSIONS.clear(); return self.send(200,PAGE("forgotten"))
        if path=="/throws": return self.send(200,PAGE("<h1>x</h1><script>function f(){throw new Error('planted-error')} f()</script>"))
        if path=="/dialogs": return self.send(200,PAGE("<script>alert('a');document.title=String(confirm('sure?'));prompt('name?');open('/popup')</script><h1>done</h1>"))
        if path=="/download": return self.send(200,b"a,b\n1,2\n","text/csv",[("content-disposition","attachment; filename=report.csv")])
        if path=="/tall": return self.send(200,PAGE("<div style='height:50000px;background:linear-gradient(red,blue)'>tall</div>"))
        if path=="/loop": return self.send(200,PAGE("<h1>busy</h1><script>while(true){}</script>"))
        if path=="/crash": return self.send(200,PAGE("<h1>memory</h1><script>const a=[];for(;;)a.push(new Array(1e6).fill(Math.random()))</script>"))
        if path=="/waits": return self.send(200,PAGE("<h1>waits</h1><img src=/hang>"))
        if path=="/console": return self.send(200,PAGE("<script>for(let i=0;i<100000;i++)console.log('x'.repeat(100),i)</script><h1>many</h1>"))
        if path=="/sw.js": return self.send(200,b"self.addEventListener('install',e=>{e.waitUntil(caches.open('v').then(c=>c.addAll(['/sw'])).then(()=>self.skipWaiting()))});self.addEventListener('activate',e=>e.waitUntil(clients.claim()));self.addEventListener('fetch',e=>e.respondWith(caches.match(e.request).then(r=>r||fetch(e.request))))","text/javascript")
        if path=="/sw": return self.send(200,PAGE("<h1>works offline</h1><script>navigator.serviceWorker.register('/sw.js').then(()=>navigator.serviceWorker.ready).then(()=>document.title='ready')</script>"))
        if path=="/form": return self.send(200,PAGE("<label>Country <select name=c><option>Norway<option value=se>Sweden</select></label><label><input type=checkbox id=t>Terms</label><button onclick=\"setTimeout(()=>{document.body.innerHTML='<h1>Thank you</h1>'},300)\">Buy</button><button disabled>Never</button><form method=post action=/upload enctype=multipart/form-data><label>Photo <input type=file name=f></label><button>Send</button></form>"))
        if path=="/moves": return self.send(200,PAGE("<style>button{display:block;width:200px;height:40px;margin:0}p{width:160px;font:16px/40px monospace}</style><div id=top></div><button onclick=\"r.textContent+='deleted '\">Delete</button><button onclick=\"r.textContent+='kept '\">Keep</button><p>Read all of <a href=# onclick=\"r.textContent+='read ';return false\">the terms</a> first.</p><p id=r></p><script>let n=0;addEventListener('mousemove',()=>{if(n++<2)document.getElementById('top').style.height=40*n+'px'})</script>"))
        if path=="/parts": return self.send(200,PAGE("<style>#ad{position:absolute;left:0;top:600px;width:300px;height:200px}</style><p id=r></p><my-button>Pay now</my-button><my-note></my-note><my-sealed></my-sealed><fieldset disabled><button>Send</button></fieldset><button style='pointer-events:none'>Wait</button><a href=# style='display:contents' onclick=\"said('linked');return false\"><b>Boxless</b></a><button style='position:absolute;left:20px;top:300px;width:200px' onclick=\"said('beneath')\">Beneath</button><iframe id=ad title=Ad srcdoc=\"<body style='height:150px'>ad\"></iframe><script>const never='Only in a script';const said=(x)=>r.textContent+=x+' ';const part=(name,mode,html,on)=>customElements.define(name,class extends HTMLElement{constructor(){super();const root=this.attachShadow({mode});root.innerHTML=html;const b=root.querySelector('button');if(b)b.onclick=on}});part('my-button','open','<button><span><slot></slot></span></button>',()=>said('paid'));part('my-note','open','<p>Shown by a component</p>');part('my-sealed','closed','<button>Sealed</button>',()=>said('sealed'));let n=0;b=document.querySelectorAll('button')[2];addEventListener('mousemove',(e)=>{if(e.target===b&&n++<1){ad.style.top='250px';setTimeout(()=>ad.style.top='600px',300)}})</script>"))
        if path=="/pay": return self.send(200,PAGE("<div id=card></div><button id=b>Pay</button><p id=r></p><script src=https://js.stripe.com/v3/></script><script>const s=Stripe('pk_test_1');const e=s.elements();e.create('card').mount('#card');b.onclick=async()=>{const x=await s.createPaymentMethod({});r.textContent=x.error?x.error.message:'paid with '+x.paymentMethod.card.last4}</script><div class=cf-turnstile data-callback=ok></div><script>function ok(t){document.title=t}</script><script src=https://challenges.cloudflare.com/turnstile/v0/api.js></script>"))
        if path=="/": return self.send(200,PAGE("<h1 style='color:red'>Welcome to the shop</h1><a href=/login>Log in</a> <button>Pay</button><img src=/missing.png><img alt=dot src='data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='><script>console.error('planted-console');console.log({a:1},[1,2]);fetch('/boom');fetch('/slow');document.cookie='theme=dark';sessionStorage.setItem('tab','1')</script>"))
        if path=="/frames": return self.send(200,PAGE("<h1>Checkout</h1><iframe title=Card src=/card></iframe><iframe title=Bank src=http://127.0.0.1:3000/bank></iframe>"))
        if path=="/card": return self.send(200,PAGE("<label>Card number <input id=n></label><button onclick=\"r.textContent='card ends in '+n.value.slice(-4)\">Use card</button><p id=r></p>"))
        if path=="/bank": return self.send(200,PAGE("<div style='height:900px'></div><button data-testid=approve onclick=\"document.querySelector('p').textContent='bank approves'\">Approve</button><p></p>"))
        if path=="/environment": return self.send(200,PAGE("<h1 id=h></h1><script>h.textContent=[navigator.language,Intl.DateTimeFormat().resolvedOptions().timeZone,new Date().toISOString().slice(0,16),new Date().getHours(),innerWidth+'x'+innerHeight,devicePixelRatio,navigator.maxTouchPoints>0,matchMedia('(prefers-reduced-motion: reduce)').matches,/iPhone/.test(navigator.userAgent),(12345.6).toLocaleString()].join(' | ')+' | asked '+%s</script>"%json.dumps(self.headers.get("accept-language"))))
        if path=="/trace": return self.send(200,PAGE("<h1>%s</h1>"%self.headers.get("traceparent")))
        self.send(404,PAGE("<h1>Nothing here</h1>"))
    def log_message(self,*a): pass
http.server.ThreadingHTTPServer(("127.0.0.1",3000),H).serve_forever()
