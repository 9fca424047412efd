function () {
  const press = window.hothousePress;
  if (!press) return '';
  delete window.hothousePress;
  press.end();
  // A press that this window never saw went to a frame, or nowhere.
  return press.by || (press.presses() > press.before ? '' : 'something else');
}
