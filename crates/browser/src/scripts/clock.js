(begin) => {
  const Real = Date;
  const offset = begin - Real.now();
  const now = () => Real.now() + offset;
  function Shifted(...given) {
    if (!new.target) return new Shifted().toString();
    return Reflect.construct(Real, given.length ? given : [now()], new.target);
  }
  Shifted.prototype = Real.prototype;
  Shifted.prototype.constructor = Shifted;
  Object.setPrototypeOf(Shifted, Real);
  Shifted.now = now;
  Shifted.parse = Real.parse;
  Shifted.UTC = Real.UTC;
  globalThis.Date = Shifted;
}
