// The page's policy allows neither style elements nor style attributes. xterm.js writes both; what it writes goes through
// the object model instead, which the policy allows to the page's own script.

/** Returns an element that does nothing but pass its text on to a style sheet of the document. */
function sheet(make: (name: string) => HTMLElement): HTMLElement {
  const stand = make('template');
  const rules = new CSSStyleSheet();
  document.adoptedStyleSheets.push(rules);
  let kept = '';
  Object.defineProperty(stand, 'textContent', {
    get: () => kept,
    set: (text: string) => { kept = text; rules.replaceSync(text); },
  });
  const remove = stand.remove.bind(stand);
  stand.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((one) => one !== rules);
    remove();
  };
  return stand;
}

export function styleByObjects(): void {
  const make = document.createElement.bind(document) as (name: string, options?: ElementCreationOptions) => HTMLElement;
  document.createElement = ((name: string, options?: ElementCreationOptions) =>
    name === 'style' ? sheet(make) : make(name, options)) as typeof document.createElement;
  const set = Element.prototype.setAttribute;
  Element.prototype.setAttribute = function (this: Element, name: string, value: string): void {
    if (name === 'style' && this instanceof HTMLElement) this.style.cssText = value;
    else set.call(this, name, value);
  };
}
