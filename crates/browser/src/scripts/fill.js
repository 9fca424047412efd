function (value) {
  const one = this.nodeType === 3 ? this.parentElement : this;
  const field = one.matches('input,textarea,select,[contenteditable]') ? one : one.control || one.querySelector('input,textarea,select,[contenteditable]');
  if (!field) return 'not a field';
  if (field.readOnly) return 'read-only';
  field.focus();
  const typed = field.isContentEditable || field.localName === 'textarea'
    || (field.localName === 'input' && ['text', 'email', 'password', 'search', 'tel', 'url', 'number', ''].includes(field.type));
  if (typed) {
    if (field.isContentEditable) getSelection().selectAllChildren(field); else field.select();
    return 'type';
  }
  if (field.localName !== 'input' || ['checkbox', 'radio', 'file', 'submit', 'button', 'image', 'reset'].includes(field.type)) return 'not a field for text';
  Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call(field, value);
  if (field.value !== value) return 'the field does not take this value';
  field.dispatchEvent(new Event('input', { bubbles: true }));
  field.dispatchEvent(new Event('change', { bubbles: true }));
  return 'done';
}
