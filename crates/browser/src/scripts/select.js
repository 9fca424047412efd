function (value) {
  const one = this.nodeType === 3 ? this.parentElement : this;
  const field = one.localName === 'select' ? one : one.control || one.querySelector('select');
  if (!field || field.localName !== 'select') return { error: 'not a list' };
  const plain = (text) => text.replace(/\s+/g, ' ').trim().toLowerCase();
  const options = [...field.options];
  const option = options.find((it) => it.value === value) || options.find((it) => plain(it.label) === plain(value));
  if (!option || option.disabled) return { error: 'no such option', near: options.slice(0, 10).map((it) => it.label.slice(0, 80)) };
  if (field.multiple) option.selected = true; else field.value = option.value;
  if (!field.multiple) option.selected = true;
  field.dispatchEvent(new Event('input', { bubbles: true }));
  field.dispatchEvent(new Event('change', { bubbles: true }));
  return {};
}
