// Stands in for Stripe.js: elements are plain fields, confirmations go to api.stripe.com as the library sends them.
(() => {
  const told = (text) => { try { globalThis.__hothouse_shim(`stripe: ${text}`); } catch { /* without a watcher */ } };
  const make = (type, options) => {
    const handlers = {};
    const box = document.createElement('div');
    box.className = 'StripeElement';
    box.dataset.testid = `stripe-${type}`;
    const field = document.createElement('input');
    field.setAttribute('aria-label', type === 'payment' || type === 'card' || type === 'cardNumber' ? 'Card number' : type);
    field.placeholder = '4242 4242 4242 4242';
    box.append(field);
    const emit = (name, event) => (handlers[name] || []).forEach((handler) => handler(event));
    const value = () => ({ complete: /^(\d\s*){13,19}$/.test(field.value) || !/card|payment/i.test(type), empty: !field.value, elementType: type, brand: 'visa', value: { type: 'card' } });
    field.addEventListener('input', () => { told(`${type} changed`); emit('change', value()); });
    field.addEventListener('focus', () => emit('focus', { elementType: type }));
    field.addEventListener('blur', () => emit('blur', { elementType: type }));
    const element = {
      type, options,
      mount(where) {
        const place = typeof where === 'string' ? document.querySelector(where) : where;
        if (!place) throw new Error(`The selector you specified (${where}) applies to no DOM elements that are currently on the page.`);
        place.append(box); told(`${type} mounted`);
        setTimeout(() => emit('ready', { elementType: type }), 0);
        return element;
      },
      on(name, handler) { (handlers[name] ||= []).push(handler); return element; },
      once(name, handler) { const one = (event) => { element.off(name, one); handler(event); }; return element.on(name, one); },
      off(name, handler) { handlers[name] = (handlers[name] || []).filter((it) => handler && it !== handler); return element; },
      update() { return element; }, focus() { field.focus(); }, blur() { field.blur(); },
      clear() { field.value = ''; }, unmount() { box.remove(); }, destroy() { box.remove(); }, collapse() {},
      card: () => field.value.replace(/\s/g, ''),
    };
    return element;
  };
  // Numbers of Stripe's test cards that fail, and how.
  const declines = { 4000000000000002: 'generic_decline', 4000000000009995: 'insufficient_funds', 4000000000000069: 'expired_card', 4000000000000127: 'incorrect_cvc' };
  const refused = (code) => ({ error: { type: 'card_error', code: 'card_declined', decline_code: code, message: code === 'insufficient_funds' ? 'Your card has insufficient funds.' : 'Your card was declined.' } });
  globalThis.Stripe = function Stripe(key) {
    const shown = [];
    const id = (secret) => String(secret || '').split('_secret')[0];
    const number = () => (shown.map((one) => one.card()).find((text) => /^\d{13,19}$/.test(text)) || '4242424242424242');
    const call = async (path, body) => {
      const answer = await fetch(`https://api.stripe.com/v1/${path}`, {
        method: 'POST', headers: { authorization: `Bearer ${key}`, 'content-type': 'application/x-www-form-urlencoded' }, body: new URLSearchParams(body),
      });
      return answer.json();
    };
    const confirm = (kind, plural) => async (given, more) => {
      const secret = typeof given === 'string' ? given : given.clientSecret || (given.elements && given.elements.clientSecret);
      const code = declines[number()];
      told(`${kind} confirmed`);
      if (code) return refused(code);
      let intent = { id: id(secret), object: kind, status: 'succeeded', client_secret: secret };
      try {
        const answered = await call(`${plural}/${id(secret)}/confirm`, { client_secret: secret || '', payment_method: 'pm_card_visa' });
        if (answered && answered.id) intent = answered; else if (answered && answered.error) return { error: answered.error };
      } catch { /* the wall does not stand in for the API: the page goes on */ }
      const back = (given.confirmParams || (more && more.confirmParams) || {}).return_url;
      if (back && given.redirect !== 'if_required') {
        const url = new URL(back, location.href);
        url.searchParams.set(kind, intent.id); url.searchParams.set(`${kind}_client_secret`, secret || ''); url.searchParams.set('redirect_status', 'succeeded');
        location.assign(url);
        return new Promise(() => {});
      }
      return { [kind === 'payment_intent' ? 'paymentIntent' : 'setupIntent']: intent };
    };
    const method = (type) => ({ id: 'pm_card_visa', object: type, type: 'card', card: { brand: 'visa', last4: number().slice(-4), exp_month: 12, exp_year: 2040 } });
    const payment = confirm('payment_intent', 'payment_intents');
    const setup = confirm('setup_intent', 'setup_intents');
    told('created');
    return {
      elements(options = {}) {
        const own = {};
        const group = {
          clientSecret: options.clientSecret,
          create(type, given) { const one = make(type, given); own[type] = one; shown.push(one); told(`${type} created`); return one; },
          getElement: (type) => own[typeof type === 'string' ? type : type && type.type] || null,
          update() {}, on() {}, fetchUpdates: async () => ({}), submit: async () => (declines[number()] ? {} : { selectedPaymentMethod: 'card' }),
        };
        return group;
      },
      confirmPayment: payment, confirmCardPayment: payment, confirmSetup: setup, confirmCardSetup: setup,
      handleNextAction: async (given) => ({ paymentIntent: { id: id(given.clientSecret), status: 'succeeded' } }),
      handleCardAction: async (secret) => ({ paymentIntent: { id: id(secret), status: 'succeeded' } }),
      retrievePaymentIntent: async (secret) => ({ paymentIntent: { id: id(secret), status: 'succeeded', client_secret: secret } }),
      retrieveSetupIntent: async (secret) => ({ setupIntent: { id: id(secret), status: 'succeeded', client_secret: secret } }),
      createPaymentMethod: async () => { told('payment method created'); const code = declines[number()]; return code ? refused(code) : { paymentMethod: method('payment_method') }; },
      createToken: async () => { told('token created'); const code = declines[number()]; return code ? refused(code) : { token: { id: 'tok_visa', object: 'token', card: method('card').card } }; },
      createConfirmationToken: async () => ({ confirmationToken: { id: 'ctoken_hothouse', object: 'confirmation_token' } }),
      redirectToCheckout: async ({ sessionId }) => { told(`redirected to checkout ${sessionId}`); return {}; },
      paymentRequest: () => ({ canMakePayment: async () => null, on() {}, show() {}, update() {} }),
      registerAppInfo() {}, _registerWrapper() {},
    };
  };
  globalThis.Stripe.version = 3;
})();
