() => {
  const plain = (text) => text.replace('HeadlessChrome', 'Chrome');
  const replace = (owner, name, value) =>
    Object.defineProperty(owner, name, { get: () => value, configurable: true, enumerable: true });
  replace(Navigator.prototype, 'webdriver', false);
  for (const name of ['userAgent', 'appVersion']) {
    replace(Navigator.prototype, name, plain(navigator[name]));
  }
  const known = navigator.userAgentData;
  if (known) {
    const brands = known.brands.map(({ brand, version }) => ({ brand: plain(brand), version }));
    replace(Object.getPrototypeOf(known), 'brands', brands);
  }
}
